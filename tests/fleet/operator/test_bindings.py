"""The operator binds the rights of stacks: to read on the hub, and to write in the namespaces labelled for them."""

from __future__ import annotations

from typing import Any

import pytest

from apis.fleet.labels import PARALLEL_PREFIX
from ctrlruntime.client.errors import NotFound
from internal.fleet.stack_bindings import (
    CLUSTER_ROLE_BINDING,
    READER,
    ROLE_BINDING,
    WRITER,
    stacks_in,
)

from .harness import NAMESPACE, SCALE, Hub, deployed, eventually, namespace, planes

ACCOUNT = "fleet-stack"


async def bound(hub: Hub) -> set[str]:
    """All bindings: whose account has which role where."""
    found: set[str] = set()
    for mapping in (CLUSTER_ROLE_BINDING, ROLE_BINDING):
        for item in await hub.client.list(mapping):
            place = item["metadata"].get("namespace", "*")
            subjects = [each for each in item.get("subjects", ()) if each["name"] == ACCOUNT]
            for each in subjects:
                found.add(f"{each['namespace']} {item['roleRef']['name']} {place}")
    return found


async def expect_bound(hub: Hub, *wanted: str) -> None:
    """Wait until these bindings are there, and no other."""

    async def holds() -> bool:
        return await bound(hub) == set(wanted)

    await eventually(holds, lambda: bound(hub))


async def parallel(hub: Hub, name: str, *stacks: str, value: str | None = "true") -> None:
    """Label a namespace for stacks; make it if it is not there."""
    labels = {f"{PARALLEL_PREFIX}{each}": value for each in stacks}
    try:
        await hub.client.patch(NAMESPACE, name, {"metadata": {"labels": labels}})
    except NotFound:
        await hub.client.create(namespace(name, **{k: str(v) for k, v in labels.items()}))


def reads(name: str) -> str:
    return f"{name} {READER} *"


def writes(name: str, place: str) -> str:
    return f"{name} {WRITER} {place}"


async def test_rights_are_bound_to_the_account_in_labelled_namespaces_alone() -> None:
    async with Hub.running() as hub, planes(2) as (east, west), hub.operator():
        await hub.configure(**SCALE)
        await parallel(hub, "acme", "east")
        await parallel(hub, "both", "east", "west")
        await parallel(hub, "mistyped", "east", value="yes")
        await hub.client.create(namespace("unlabelled"))
        await deployed(hub, east=east, west=west)
        await expect_bound(
            hub,
            reads("east"),
            reads("west"),
            writes("east", "acme"),
            writes("east", "both"),
            writes("west", "both"),
        )


async def test_a_label_that_comes_or_goes_later_is_followed() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await deployed(hub, east=east)
        await expect_bound(hub, reads("east"))
        await parallel(hub, "acme", "east")
        await expect_bound(hub, reads("east"), writes("east", "acme"))
        await parallel(hub, "acme", "east", value=None)
        await expect_bound(hub, reads("east"))
        await hub.until(east="SuccessfulDeployment")


async def test_a_label_that_goes_takes_rights_away_whatever_the_kubeconfig_is_like() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await parallel(hub, "acme", "east")
        await deployed(hub, east=east)
        await expect_bound(hub, reads("east"), writes("east", "acme"))
        await hub.write_secret("east", "{")
        await hub.until(east="KubeconfigInvalid")
        await parallel(hub, "acme", "east", value=None)
        await expect_bound(hub, reads("east"))


async def test_without_a_data_plane_that_was_proved_nothing_is_bound() -> None:
    async with Hub.running() as hub, hub.operator():
        await hub.configure(**SCALE)
        await parallel(hub, "acme", "east")
        await hub.add("east", None)
        await hub.until(east="KubeconfigSecretMissing")
        assert await bound(hub) == set()


async def test_teardown_takes_all_rights_away_and_leaves_those_of_others() -> None:
    async with Hub.running() as hub, planes(2) as (east, west), hub.operator():
        await hub.configure(**SCALE)
        await parallel(hub, "both", "east", "west")
        await deployed(hub, east=east, west=west)
        await hub.client.create(binding("by-hand", "both", "east"))
        everything = {reads("west"), writes("west", "both"), "east view both"}
        await expect_bound(hub, reads("east"), writes("east", "both"), *everything)
        await hub.label("east", None)
        await hub.until_torn_down("east")
        assert await bound(hub) == everything


async def test_bindings_without_their_labels_are_removed_by_a_teardown_too() -> None:
    async with Hub.running() as hub, planes(1) as (east,):
        async with hub.operator():
            await hub.configure(**SCALE)
            await parallel(hub, "acme", "east")
            await deployed(hub, east=east)
            await expect_bound(hub, reads("east"), writes("east", "acme"))
        patch = {"metadata": {"labels": None}}
        await hub.client.patch(ROLE_BINDING, "fleet-stack-east", patch, namespace="acme")
        await hub.label("east", None)
        async with hub.operator():
            await hub.until_torn_down("east")
        assert await bound(hub) == set()


async def test_a_deleted_target_namespace_leaves_no_rights_behind() -> None:
    async with Hub.running() as hub, planes(1) as (east,):
        async with hub.operator():
            await hub.configure(**SCALE)
            await parallel(hub, "acme", "east")
            await deployed(hub, east=east)
            await expect_bound(hub, reads("east"), writes("east", "acme"))
        await hub.client.delete(NAMESPACE, "east")  # while no operator runs
        async with hub.operator():
            await expect_bound(hub)
            await hub.until()


async def test_a_parallel_namespace_that_is_deleted_is_no_failure() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await parallel(hub, "acme", "east")
        await deployed(hub, east=east)
        await expect_bound(hub, reads("east"), writes("east", "acme"))
        patch = {"metadata": {"finalizers": ["example.com/held"]}}
        await hub.client.patch(NAMESPACE, "acme", patch)
        await hub.client.delete(NAMESPACE, "acme")
        await expect_bound(hub, reads("east"))
        await hub.client.patch(NAMESPACE, "acme", {"metadata": {"finalizers": None}})
        await hub.touch("east")
        await hub.until(east="SuccessfulDeployment")


async def test_a_binding_that_was_deleted_or_given_to_another_is_restored() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await parallel(hub, "acme", "east")
        await deployed(hub, east=east)
        wanted = (reads("east"), writes("east", "acme"))
        await expect_bound(hub, *wanted)
        await hub.client.delete(ROLE_BINDING, "fleet-stack-east", namespace="acme")
        await hub.client.delete(CLUSTER_ROLE_BINDING, "fleet-stack-east")
        await expect_bound(hub, *wanted)
        subjects = [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "elsewhere"}]
        patch: Any = {"subjects": subjects}
        await hub.client.patch(ROLE_BINDING, "fleet-stack-east", patch, namespace="acme")
        await expect_bound(hub, *wanted)


async def test_a_binding_of_another_owner_in_the_way_is_left_and_named() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await parallel(hub, "acme", "east")
        await hub.client.create(binding("fleet-stack-east", "acme", "other"))
        await hub.add("east", east)
        await hub.until(east="DeploymentFailure")
        message = await hub.message("east")
        assert "RoleBinding fleet-stack-east in namespace acme is left" in message
        assert await bound(hub) == {reads("east"), "other view acme"}


async def test_normal_mode_binds_nothing_and_takes_the_rights_of_scale_mode_away() -> None:
    async with Hub.running() as hub, planes(1) as (east,), hub.operator():
        await hub.configure(**SCALE)
        await parallel(hub, "acme", "east")
        await deployed(hub, east=east)
        await expect_bound(hub, reads("east"), writes("east", "acme"))
        await hub.configure(targetNamespace="east")
        await expect_bound(hub)


def binding(name: str, place: str, account: str) -> dict[str, Any]:
    """A RoleBinding that another has made."""
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": place},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": account}],
    }


@pytest.mark.parametrize("value", ["True", "yes", "", "false"])
def test_a_label_with_another_value_grants_nothing(value: str) -> None:
    assert stacks_in({f"{PARALLEL_PREFIX}east": value, "parallel": "true"}) == []
    assert stacks_in({f"{PARALLEL_PREFIX}east": "true", f"{PARALLEL_PREFIX}west": value}) == [
        "east"
    ]
