"""Workloads that are changed by others: noticed, and repaired by a run. With real runs in the manager's own cluster."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apis.cloud import FleetRollout, InstanceKubernetes
from apis.operations import ChangeFreeze
from ctrlruntime.api import find_condition
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.client.errors import NotFound
from ctrlruntime.clock import utc_now
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually_holds
from ctrlruntime.json import Json
from internal.cloud.labels import RUN_ID
from internal.cloud.subresources import SUBRESOURCES, kubernetes
from internal.cloud.tasks.kubernetes.inventory import INVENTORY
from internal.cloud.tasks.task import Retries
from manager.controllers.cloud import WORKLOAD_KINDS
from tests.cloud.instance.harness import NAMESPACE, InstanceHarness, instance
from tests.cloud.instance.local_harness import LocalHarness, local_harness
from tests.cloud.tasks.kubeconfigs import inline
from tests.support.waiting import TIMEOUT, eventually, eventually_succeeds

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
JOB_KIND = GroupVersionKind("batch", "v1", "Job")
EVENT = GroupVersionKind("events.k8s.io", "v1", "Event")
WAIT = 0.25
"""Seconds from the end of the first run to a repair; each later wait is twice as long."""


def config_map(name: str, **data: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


LABELS = {"app": "web"}
CONTAINERS = [{"name": "main", "image": "example.com/web:1"}]
DEPLOYMENT_OF_WEB: Manifest = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": LABELS},
        "template": {"metadata": {"labels": LABELS}, "spec": {"containers": CONTAINERS}},
    },
}
JOB: Manifest = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "once"},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": CONTAINERS}}},
}


def workload(*manifests: Manifest, **cluster: object) -> dict[str, Any]:
    return instance(
        infrastructure={},
        cluster={
            "kubeconfigFrom": {"name": "cluster", "key": "kubeconfig"},
            "bundle": {"manifests": list(manifests)},
            **cluster,
        },
    )


def kind_of(manifest: Manifest) -> GroupVersionKind:
    group, _, version = str(manifest["apiVersion"]).rpartition("/")
    return GroupVersionKind(group, version, str(manifest["kind"]))


def named(version: str, kind: str, **parts: object) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "web"}, **parts}


SELECTED: dict[str, Any] = {
    "selector": {"matchLabels": LABELS},
    "template": DEPLOYMENT_OF_WEB["spec"]["template"],
}
ALL_KINDS: tuple[Manifest, ...] = (
    named("v1", "ConfigMap", data={"a": "1"}),
    named("v1", "Secret", stringData={"a": "1"}),
    named("v1", "ServiceAccount"),
    named("v1", "Service", spec={"ports": [{"port": 80}], "selector": LABELS}),
    named(
        "v1",
        "PersistentVolumeClaim",
        spec={
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "standard",
        },
    ),
    DEPLOYMENT_OF_WEB,
    named("apps/v1", "DaemonSet", spec=SELECTED),
    named("apps/v1", "StatefulSet", spec={**SELECTED, "replicas": 1, "serviceName": "web"}),
    named(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        spec={
            "maxReplicas": 2,
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
        },
    ),
    named(
        "batch/v1",
        "CronJob",
        spec={"schedule": "0 0 1 1 *", "jobTemplate": {"spec": JOB["spec"]}},
    ),
    named(
        "networking.k8s.io/v1",
        "Ingress",
        spec={"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}},
    ),
    named(
        "networking.k8s.io/v1",
        "NetworkPolicy",
        spec={"podSelector": {}, "policyTypes": ["Ingress"]},
    ),
    named("policy/v1", "PodDisruptionBudget", spec={"minAvailable": 0, "selector": {}}),
)
"""One of each kind that the manager may watch."""
READY: dict[str, Manifest] = {
    "Deployment": {
        "observedGeneration": 1,
        "replicas": 1,
        "updatedReplicas": 1,
        "readyReplicas": 1,
        "availableReplicas": 1,
    },
    "StatefulSet": {
        "observedGeneration": 1,
        "replicas": 1,
        "currentReplicas": 1,
        "updatedReplicas": 1,
        "readyReplicas": 1,
        "availableReplicas": 1,
    },
    "DaemonSet": {
        "observedGeneration": 1,
        "currentNumberScheduled": 0,
        "desiredNumberScheduled": 0,
        "numberMisscheduled": 0,
        "numberReady": 0,
    },
    "HorizontalPodAutoscaler": {
        "currentReplicas": 1,
        "desiredReplicas": 1,
        "conditions": [{"type": "AbleToScale", "status": "True"}],
    },
    "PersistentVolumeClaim": {"phase": "Bound"},
}
"""Statuses that controllers of a cluster write."""


@asynccontextmanager
async def deployed(
    folder: Path,
    *manifests: Manifest,
    cluster: Environment | None = None,
    meanwhile: Callable[[InstanceHarness], Awaitable[None]] | None = None,
    busy: bool = False,
    **more: Json,
) -> AsyncIterator[LocalHarness]:
    """A ready instance whose workload is in a cluster, by default the manager's own; `busy`: it is never idle.

    A repair waits `WAIT` after the first run.
    """
    quick = replace(kubernetes.DEFINITION, retries=Retries(base=WAIT))
    subresources = [
        replace(item, definition=quick) if item.kind is InstanceKubernetes else item
        for item in SUBRESOURCES
    ]
    async with local_harness(folder, environment={}, subresources=subresources) as harness:
        kubeconfig = (cluster or harness.environment).kubeconfig("admin")
        await harness.give_secret("cluster", kubeconfig=inline(Path(kubeconfig)))
        await harness.apply(workload(*manifests, **more))
        if meanwhile is not None:
            await meanwhile(harness)
        await harness.phase("Ready")
        if not busy:
            await harness.idle()
        yield harness


async def data_of(harness: InstanceHarness, name: str) -> Mapping[str, str] | None:
    try:
        found = await harness.client.get(CONFIG_MAP, name, namespace=NAMESPACE)
    except NotFound:
        return None
    return dict(found.get("data") or {})


async def restored(harness: InstanceHarness, name: str, **data: str) -> None:
    async def is_restored() -> bool:
        return await data_of(harness, name) == data

    await eventually_holds(is_restored, timeout=TIMEOUT)


async def runs(harness: InstanceHarness) -> int:
    """How many runs the workload has had."""
    found = await harness.read("InstanceKubernetes")
    assert found.status.run is not None
    return int(found.status.run.attempt)


async def drift_events(harness: InstanceHarness) -> list[str]:
    """The notes of the events, once nothing is left to do that could notice a drift."""
    await harness.idle(4 * WAIT)
    found = await harness.client.list(EVENT, NAMESPACE)
    return [each["note"] for each in found if each["reason"] == "Drifted"]


@pytest.mark.criterion("ISSUE15-8-DRIFT")
async def test_a_deleted_config_map_of_an_instance_is_noticed_and_repaired(
    tmp_path: Path,
) -> None:
    async with deployed(tmp_path, config_map("web", a="1"), config_map("db", b="2")) as harness:
        await harness.client.delete(CONFIG_MAP, "web", namespace=NAMESPACE)
        assert await drift_events(harness) == [f"ConfigMap {NAMESPACE}/web was deleted."]
        await restored(harness, "web", a="1")
        assert await data_of(harness, "db") == {"b": "2"}
        await harness.phase("Ready")
        await eventually_holds(lambda: is_ready(harness), timeout=TIMEOUT)
        assert await runs(harness) == 2


async def is_ready(harness: InstanceHarness) -> bool:
    found = await harness.read("InstanceKubernetes")
    return bool(found.status.phase == "Ready" and found.status.run.state == "Done")


async def edit(harness: InstanceHarness, name: str, **patch: object) -> None:
    await harness.client.patch(
        CONFIG_MAP, name, patch, namespace=NAMESPACE, field_manager="kubectl-edit"
    )


async def test_an_edited_object_is_put_back_and_what_others_add_is_left(tmp_path: Path) -> None:
    async with deployed(tmp_path, config_map("web", a="1")) as harness:
        before = harness.mark()
        await edit(harness, "web", data={"theirs": "x"}, metadata={"labels": {"theirs": "x"}})
        await harness.idle()
        assert harness.writes(before) == []
        await edit(harness, "web", data={"a": "edited"})
        await restored(harness, "web", a="1", theirs="x")
        await eventually_holds(lambda: is_ready(harness), timeout=TIMEOUT)
        assert await runs(harness) == 2


async def test_without_drift_nothing_is_requested(tmp_path: Path) -> None:
    async with deployed(tmp_path, config_map("web", a="1")) as harness:
        idle = harness.mark()
        await harness.idle(4 * WAIT)
        seen = [
            item
            for item in harness.environment.proxy.log.entries(idle)
            if item.user == "manager" and item.code != 404
        ]
        assert seen == []


async def test_what_was_deleted_while_no_manager_ran_is_repaired(tmp_path: Path) -> None:
    async with deployed(tmp_path, config_map("web", a="1")) as harness:
        await harness.stop_manager()
        await harness.client.delete(CONFIG_MAP, "web", namespace=NAMESPACE)
        await harness.start_manager()
        assert await drift_events(harness) == [f"ConfigMap {NAMESPACE}/web was deleted."]
        await restored(harness, "web", a="1")


async def test_replicas_and_jobs_that_are_gone_are_no_drift(tmp_path: Path) -> None:
    async with controllers_played(tmp_path, DEPLOYMENT_OF_WEB, JOB) as harness:
        before = harness.mark()
        patch = {"spec": {"replicas": 3}}
        await harness.client.patch(DEPLOYMENT, "web", patch, namespace=NAMESPACE)
        await harness.client.delete(JOB_KIND, "once", namespace=NAMESPACE, propagation="Background")
        await harness.idle()
        assert harness.writes(before) == []
        found = await harness.client.get(DEPLOYMENT, "web", namespace=NAMESPACE)
        assert found["spec"]["replicas"] == 3


@asynccontextmanager
async def controllers_played(folder: Path, *manifests: Manifest) -> AsyncIterator[LocalHarness]:
    """A ready instance with a Deployment and a Job, whose statuses the test writes."""

    async def play(harness: InstanceHarness) -> None:
        ready = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1}
        await patched(
            harness, DEPLOYMENT, "web", {**ready, "readyReplicas": 1, "availableReplicas": 1}
        )
        now = "2026-01-01T00:00:00Z"
        kinds = ("SuccessCriteriaMet", "Complete")
        done = [{"type": each, "status": "True", "lastTransitionTime": now} for each in kinds]
        status = {"conditions": done, "succeeded": 1, "startTime": now, "completionTime": now}
        await patched(harness, JOB_KIND, "once", status)

    async with deployed(folder, *manifests, meanwhile=play) as harness:
        yield harness


async def patched(
    harness: InstanceHarness, kind: GroupVersionKind, name: str, status: Manifest
) -> None:
    """Write a status as soon as the object is there."""
    await eventually_succeeds(
        lambda: harness.client.patch_status(kind, name, {"status": status}, namespace=NAMESPACE),
        despite=NotFound,
    )


async def test_each_kind_that_is_watched_is_noticed_and_repaired(tmp_path: Path) -> None:
    """With the rights that the system cloud declares, and no more."""
    assert {plural for _, plural in WORKLOAD_KINDS} == {
        BUILTIN[kind].plural for kind in map(kind_of, ALL_KINDS)
    }

    async def play(harness: InstanceHarness) -> None:
        for manifest in ALL_KINDS:
            if manifest["kind"] in READY:
                await patched(harness, kind_of(manifest), "web", READY[manifest["kind"]])

    async with deployed(tmp_path, *ALL_KINDS, meanwhile=play) as harness:
        for manifest in ALL_KINDS:
            await removed(harness, kind_of(manifest))
        for manifest in ALL_KINDS:
            await eventually_succeeds(
                partial(harness.client.get, kind_of(manifest), "web", namespace=NAMESPACE),
                despite=NotFound,
            )
        await play(harness)


async def removed(harness: InstanceHarness, kind: GroupVersionKind) -> None:
    """Delete an object; no controller is there that would take its finalizers away."""
    await harness.client.patch(kind, "web", {"metadata": {"finalizers": None}}, namespace=NAMESPACE)
    await harness.client.delete(kind, "web", namespace=NAMESPACE, propagation="Background")


async def test_another_writer_is_not_fought_in_a_loop(tmp_path: Path) -> None:
    async with deployed(tmp_path, config_map("web", a="1")) as harness:

        async def edited() -> int:
            if await data_of(harness, "web") == {"a": "1"}:
                await edit(harness, "web", data={"a": "theirs"})
            return await runs(harness)

        await eventually(edited, lambda count: count >= 4)
        status = (await harness.read("InstanceKubernetes")).status
        made = [status.run, *status.history]
        waits = [
            (later.created_at - earlier.finished_at).total_seconds()
            for later, earlier in itertools.pairwise(made)
        ]
        assert waits[0] >= 4 * WAIT, waits
        assert waits[1] >= 2 * WAIT, waits
        assert waits[2] >= WAIT, waits


async def test_what_cannot_be_read_as_a_record_begins_no_run(tmp_path: Path) -> None:
    async with deployed(tmp_path, config_map("web", a="1")) as harness:
        [inventory] = await harness.client.list(CONFIG_MAP, NAMESPACE, labels=INVENTORY)
        name, fields = inventory["metadata"]["name"], inventory["data"]["fields.json"]
        before = harness.mark()
        for nonsense in ("", "{", "[[1]]", '[["","ConfigMap"]]', "null", "[7]"):
            await edit(harness, name, data={"fields.json": nonsense})
        await harness.idle()
        other = {"annotations": {RUN_ID: "kubernetes-000000000000"}}
        await edit(harness, name, data={"fields.json": fields}, metadata=other)
        await harness.client.delete(CONFIG_MAP, "web", namespace=NAMESPACE)
        await harness.idle()
        assert harness.writes(before) == []  # the record of another run, perhaps in another cluster


async def test_in_another_cluster_drift_is_repaired_within_the_period(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kubernetes, "LEAST_PERIOD", 1.0)
    async with (
        Environment(tls=True, users=("admin",)) as cluster,
        deployed(
            tmp_path, config_map("web", a="1"), cluster=cluster, busy=True, driftPeriod="1s"
        ) as harness,
    ):
        client = cluster.client("admin")
        await client.delete(CONFIG_MAP, "web", namespace=NAMESPACE)

        async def is_restored() -> bool:
            with contextlib.suppress(NotFound):
                found = await client.get(CONFIG_MAP, "web", namespace=NAMESPACE)
                return bool(found["data"] == {"a": "1"})
            return False

        await eventually_holds(is_restored, timeout=TIMEOUT)
        repaired = await harness.until(
            "InstanceKubernetes", lambda found: found.status.succeeded.slot
        )
        assert repaired.status.succeeded.slot


@pytest.mark.parametrize(
    ("given", "seconds"), [(None, None), ("1h", 3600.0), ("1s", 60.0), ("0s", 60.0), ("-1h", 60.0)]
)
def test_the_period_is_a_minute_at_least(given: str | None, seconds: float | None) -> None:
    cluster = {} if given is None else {"driftPeriod": given}
    spec = {"version": "1", "cluster": cluster}
    resource = InstanceKubernetes.from_manifest({"metadata": {"name": "a"}, "spec": spec})
    assert kubernetes.SUBRESOURCE.period(resource) == seconds


@pytest.mark.criterion("ISSUE15-8-TERRAFORM-DRIFT")
async def test_infrastructure_that_was_changed_is_reported_and_applied_on_request(
    tmp_path: Path,
) -> None:
    """A schedule has a time each minute; a minute passes at once."""
    later = timedelta()
    async with local_harness(tmp_path, environment={}, clock=lambda: utc_now() + later) as harness:
        await harness.environment.install_crds(FleetRollout, ChangeFreeze)
        detection = {"schedule": "* * * * *", "action": "Report"}
        built = {"terraform": {"module": {"source": "./none"}}}
        await harness.apply(instance(infrastructure=built, driftDetection=detection))
        await harness.until(
            "InstanceTerraform", lambda one: one is not None and one.status.phase == "Ready"
        )
        [state] = (tmp_path / "states").rglob("terraform.tfstate")
        before = json.loads(state.read_text())
        state.write_text(json.dumps({**before, "digest": "changed by hand"}))

        later = timedelta(minutes=1)
        await harness.restart_manager()
        found = await harness.until(
            "InstanceTerraform",
            lambda one: find_condition(one.status.conditions, "Drifted") is not None,
        )
        drifted = find_condition(found.status.conditions, "Drifted")
        assert drifted is not None
        assert (drifted.status, drifted.reason) == ("True", "PlanHasChanges")
        assert "0 to add, 1 to change, 0 to destroy" in drifted.message
        assert found.status.run.operation == "Plan"
        assert json.loads(state.read_text())["digest"] == "changed by hand"
        assert found.status.phase == "Ready"

        await harness.annotate(kind="InstanceTerraform", reconcile="1")
        await harness.until(
            "InstanceTerraform",
            lambda one: find_condition(one.status.conditions, "Drifted") is None,
        )
        assert json.loads(state.read_text()) == before
        found = await harness.there("InstanceTerraform")
        assert found.metadata.generation == 1  # a schedule is no input
