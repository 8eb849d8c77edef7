"""A stack is removed when its label is: all of it and nothing else, the marker last, after any crash."""

from __future__ import annotations

from typing import Any

import pytest

from apis.fleet import FleetConfig
from apis.fleet.labels import TARGET_NAMESPACE
from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest.proxy import Fail, Match
from internal.fleet.labels import SELECTED
from internal.fleet.stack_builder import DEPLOYMENT, SERVICE, SERVICE_ACCOUNT

from .harness import (
    CONFIG_MAP,
    NAMESPACE,
    OBJECTS,
    POD,
    SCALE,
    SECRET,
    Hub,
    deployed,
    eventually,
    foreign,
    planes,
)


@pytest.mark.criterion("FLEET-R9", "FLEET-R10")
async def test_r09_r10_all_and_only_what_was_made_is_removed() -> None:
    async with Hub.running() as hub, planes(2) as (east, west), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east, west=west)
        for manifest in foreign("other", "east"):
            await hub.client.create(manifest)
        await hub.label("east", None)

        async def removed() -> bool:
            return not await hub.is_target("east")

        await eventually(removed, hub.config)
        for mapping in (CONFIG_MAP, SERVICE, SERVICE_ACCOUNT):
            assert await hub.has(mapping, "other", "east")
        assert await hub.objects("east") == {"Service other", "ServiceAccount other"}
        assert await hub.has(SECRET, "data-plane-kubeconfig", "east")
        assert await hub.identity("east") == ""
        await hub.until(west="SuccessfulDeployment")
        assert await hub.objects("west") == OBJECTS
        assert (await hub.condition("TeardownComplete"))[0] == "True"


@pytest.mark.criterion("FLEET-R9")
async def test_a_label_that_cannot_be_read_removes_no_stack() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east)
        await hub.label("east", "True")

        async def stays() -> bool:
            return "east: stays, as its label" in (await hub.condition("TeardownComplete"))[2]

        await eventually(stays, hub.config)
        assert await hub.objects("east") == OBJECTS
        await hub.label("east")
        await hub.until(east="SuccessfulDeployment")


async def test_an_object_that_lost_its_labels_is_removed_too() -> None:
    async with Hub.running() as hub, planes(1) as (east,):
        async with hub.operator():
            await hub.configure(**SCALE)
            await deployed(hub, east=east)
        patch = {"metadata": {"labels": dict.fromkeys(SELECTED)}}
        await hub.client.patch(DEPLOYMENT, "fleet-admission", patch, namespace="east")
        await hub.label("east", None)
        async with hub.operator():
            await hub.until_torn_down("east")
        with pytest.raises(NotFound):
            await hub.client.get(DEPLOYMENT, "fleet-admission", namespace="east")


@pytest.mark.criterion("FLEET-R11")
async def test_r11_the_rest_goes_when_the_pods_are_gone_and_the_label_last() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east)
        await hub.client.create(pod("running"))
        mark = hub.environment.proxy.log.mark()
        await hub.label("east", None)

        async def waits() -> bool:
            status, _, message = await hub.condition("TeardownComplete")
            return status == "False" and "0 workload(s) and 1 Pod(s)" in message

        await eventually(waits, hub.config)
        assert "east" in (await hub.condition("TeardownComplete"))[2]
        support = {"Service fleet-admission", "Service fleet-workers", "ServiceAccount fleet-stack"}
        assert await hub.objects("east") == support
        assert await hub.is_target("east")
        await hub.client.delete(POD, "running", namespace="east")
        await hub.until_torn_down("east")
        log = hub.environment.proxy.log.entries(mark)
        writes = [
            each.resource
            for each in log
            if each.user == "operator" and each.verb in {"delete", "patch"}
        ]
        writes = [each for each in writes if "fleetconfigs" not in each]
        assert sorted(writes[:3]) == ["deployments.apps", "deployments.apps", "statefulsets.apps"]
        assert sorted(writes[3:-1]) == [
            "clusterrolebindings.rbac.authorization.k8s.io",
            "rolebindings.rbac.authorization.k8s.io",
            "rolebindings.rbac.authorization.k8s.io",
            "serviceaccounts",
            "services",
            "services",
        ]
        assert writes[-1] == "namespaces"


@pytest.mark.criterion("FLEET-R12", "D5-11")
async def test_r12_the_last_data_plane_is_removed_too() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east)
        await hub.label("east", None)
        await hub.until_torn_down("east")
        await hub.until()
        ready = await hub.condition("Ready")
        assert (ready[0], ready[2]) == ("True", "0 target namespace(s) deployed successfully")


@pytest.mark.criterion("FLEET-R13")
async def test_r13_a_deleted_namespace_leaves_the_list_without_an_error() -> None:
    async with Hub.running() as hub, planes(2) as (east, west), hub.operator() as manager:
        await hub.configure(**SCALE)
        await deployed(hub, east=east, west=west)
        patch = {"metadata": {"finalizers": ["example.com/held"]}}
        await hub.client.patch(NAMESPACE, "east", patch)
        await hub.client.delete(NAMESPACE, "east")
        await hub.until(west="SuccessfulDeployment")
        await hub.client.patch(NAMESPACE, "east", {"metadata": {"finalizers": None}})
        await hub.touch("west")
        await hub.until(west="SuccessfulDeployment")
        errors = manager.metrics.registry.get_sample_value(
            "controller_runtime_reconcile_errors_total", {"controller": "fleetnamespace"}
        )
        assert errors == 0


@pytest.mark.criterion("FLEET-R14", "FLEET-R26")
async def test_r14_r25_r26_nothing_of_a_data_plane_is_changed() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east)
        await hub.label("east", None)
        await hub.until_torn_down("east")
        counts = east.proxy.log.counts()
        assert counts.writes == 0
        assert counts.total > 0
        assert await east.client.list(DEPLOYMENT) == []


@pytest.mark.criterion("D5-12")
async def test_r12_a_former_namespace_that_cannot_be_cleaned_fails_no_other() -> None:
    async with Hub.running() as hub, planes(2) as (east, west), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east, west=west)
        rule = hub.environment.proxy.add(
            Fail(500), Match(user="operator", verb="delete", namespace="east"), times=None
        )
        await hub.label("east", None)

        async def reported() -> bool:
            status, _, message = await hub.condition("TeardownComplete")
            return status == "False" and "the hub refused a request" in message

        await eventually(reported, hub.config)
        assert await hub.reasons() == {"west": "SuccessfulDeployment"}
        assert (await hub.condition("Ready"))[0] == "True"
        hub.environment.proxy.remove(rule)
        await hub.until_torn_down("east")


async def test_without_a_fleetconfig_nothing_is_removed() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east)
        await hub.client.delete(FleetConfig, "fleet")
        await hub.label("east", None)
        await hub.configure(**SCALE)
        await hub.until_torn_down("east")  # only now: it is adopted by its owner's name
        assert await hub.has(SECRET, "data-plane-kubeconfig", "east")


def pod(name: str) -> dict[str, Any]:
    """A Pod of a stack that outlives its workload."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "east", "labels": SELECTED},
        "spec": {"containers": [{"name": "manager", "image": "stack:1"}]},
    }


def test_the_marker_is_the_seeds() -> None:
    assert TARGET_NAMESPACE == "fleet.ctrlruntime.dev/target-namespace"
