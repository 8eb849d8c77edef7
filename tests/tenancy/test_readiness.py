"""Readiness per kind, and the clocks that turn waiting into failure."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Self

import pytest

from apis.tenancy import Tenant
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.cache.events import DeleteEvent, Event, UpdateEvent
from ctrlruntime.lifecycle import PerUID
from ctrlruntime.resources.readiness import READY, Phase, assess, failed, not_ready
from internal.tenancy.tenant.readiness import ReadinessTimers, Watches

NOW = datetime(2026, 1, 2, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def obj(
    api_version: str, kind: str, status: object = None, generation: int = 1, **spec: object
) -> dict[str, Any]:
    found = {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "x", "generation": generation},
        "spec": spec,
    }
    return found if status is None else {**found, "status": status}


def deployment(wanted: int, **counts: object) -> dict[str, Any]:
    status = {"observedGeneration": 1, **counts}
    return obj("apps/v1", "Deployment", status, replicas=wanted)


def full(count: int) -> dict[str, Any]:
    return {
        "replicas": count,
        "updatedReplicas": count,
        "readyReplicas": count,
        "availableReplicas": count,
    }


def condition(name: str, status: str = "True", **more: object) -> dict[str, Any]:
    return {"conditions": [{"type": name, "status": status, **more}]}


def claim(requested: str, capacity: str, *conditions: object) -> dict[str, Any]:
    status = {"phase": "Bound", "capacity": {"storage": capacity}, "conditions": [*conditions]}
    resources = {"requests": {"storage": requested}}
    return obj("v1", "PersistentVolumeClaim", status, resources=resources)


QUOTA = {
    "reason": "FailedCreate",
    "message": 'pods "x-1-" is forbidden: exceeded quota: small, requested: pods=1',
}
LB = {"loadBalancer": {"ingress": [{"ip": "10.0.0.1"}]}}
DAEMON = {"observedGeneration": 1, "desiredNumberScheduled": 2, "numberReady": 2}

READY_OBJECTS = {
    "Deployment": deployment(3, **full(3)),
    "Deployment of none": deployment(0),
    "StatefulSet": obj("apps/v1", "StatefulSet", {"observedGeneration": 1, **full(2)}, replicas=2),
    "StatefulSet of none": obj("apps/v1", "StatefulSet", {"observedGeneration": 1}, replicas=0),
    "StatefulSet with partition": obj(
        "apps/v1",
        "StatefulSet",
        {"observedGeneration": 1, **full(3), "updatedReplicas": 1}
        | {"currentRevision": "a", "updateRevision": "b"},
        replicas=3,
        updateStrategy={"type": "RollingUpdate", "rollingUpdate": {"partition": 2}},
    ),
    "StatefulSet OnDelete": obj(
        "apps/v1",
        "StatefulSet",
        {
            "observedGeneration": 1,
            "readyReplicas": 3,
            "currentRevision": "a",
            "updateRevision": "b",
        },
        replicas=3,
        updateStrategy={"type": "OnDelete"},
    ),
    "DaemonSet": obj(
        "apps/v1", "DaemonSet", {**DAEMON, "updatedNumberScheduled": 2, "numberAvailable": 2}
    ),
    "DaemonSet on no node": obj("apps/v1", "DaemonSet", {"observedGeneration": 1}),
    "Job": obj("batch/v1", "Job", condition("Complete")),
    "Pod": obj("v1", "Pod", condition("Ready")),
    "Pod done": obj("v1", "Pod", {"phase": "Succeeded"}),
    "Service": obj("v1", "Service"),
    "Service balanced": obj("v1", "Service", LB, type="LoadBalancer"),
    "Ingress by rules": obj("networking.k8s.io/v1", "Ingress", rules=[{}]),
    "Ingress by address": obj("networking.k8s.io/v1", "Ingress", LB),
    "Claim": obj("v1", "PersistentVolumeClaim", {"phase": "Bound"}),
    "Namespace": obj("v1", "Namespace", {"phase": "Active"}),
    "Autoscaler": obj("autoscaling/v2", "HorizontalPodAutoscaler", condition("AbleToScale")),
    "ConfigMap": obj("v1", "ConfigMap"),
    "CronJob": obj("batch/v1", "CronJob"),
    "custom without status": obj("acme.io/v1", "Thing"),
    "custom Ready": obj("acme.io/v1", "Thing", condition("Ready")),
    "custom Available": obj("acme.io/v1", "Thing", condition("Available")),
    "custom, other conditions": obj("acme.io/v1", "Thing", condition("Synced", "False")),
    "another group's Deployment": obj("acme.io/v1", "Deployment", {}),
    "ReplicaSet": obj("apps/v1", "ReplicaSet", {"observedGeneration": 1, **full(2)}, replicas=2),
    "Claim with more room than requested": claim("1Gi", "2Gi"),
    "custom Ready of its last change": obj(
        "acme.io/v1", "Thing", condition("Ready", observedGeneration=1)
    ),
    "custom, its generation as text": obj(
        "acme.io/v1", "Thing", {"observedGeneration": "1", **condition("Ready")}
    ),
    "Autoscaler of what is scaled to none": obj(
        "autoscaling/v2",
        "HorizontalPodAutoscaler",
        {
            "conditions": [
                *condition("AbleToScale")["conditions"],
                *condition("ScalingActive", "False", reason="ScalingDisabled")["conditions"],
            ]
        },
    ),
    "ReplicationController": obj("v1", "ReplicationController", full(2), replicas=2),
    "volume": obj("v1", "PersistentVolume", {"phase": "Available"}),
    "copy": obj("snapshot.storage.k8s.io/v1", "VolumeSnapshot", {"readyToUse": True}),
    "definition": obj(
        "apiextensions.k8s.io/v1", "CustomResourceDefinition", condition("Established")
    ),
}


@pytest.mark.criterion("READY-KINDS")
@pytest.mark.parametrize("name", READY_OBJECTS)
def test_ready(name: str) -> None:
    assert assess(READY_OBJECTS[name]) == READY


NOT_READY_OBJECTS = {
    "Deployment of an old generation": (
        obj("apps/v1", "Deployment", {"observedGeneration": 1, **full(1)}, generation=2),
        "has not seen",
    ),
    "Deployment without status": (obj("apps/v1", "Deployment"), "has not seen"),
    "Deployment, default replicas": (
        obj("apps/v1", "Deployment", {"observedGeneration": 1}),
        "0 of 1 replicas are updated",
    ),
    "Deployment losing a pod": (
        deployment(3, **{**full(3), "readyReplicas": 2}),
        "2 of 3 replicas are ready",
    ),
    "Deployment with old pods": (deployment(1, **{**full(1), "replicas": 2}), "old replicas"),
    "StatefulSet half updated": (
        obj(
            "apps/v1",
            "StatefulSet",
            {"observedGeneration": 1, **full(3), "updatedReplicas": 1}
            | {"currentRevision": "a", "updateRevision": "b"},
            replicas=3,
        ),
        "1 of 3 replicas are updated",
    ),
    "DaemonSet": (obj("apps/v1", "DaemonSet", DAEMON), "0 of 2 replicas are updated"),
    "Job": (obj("batch/v1", "Job", {"active": 1}), "not completed"),
    "Job suspended": (obj("batch/v1", "Job", suspend=True), "suspended"),
    "Service": (obj("v1", "Service", type="LoadBalancer"), "no address"),
    "Ingress": (obj("networking.k8s.io/v1", "Ingress"), "neither rules"),
    "Claim": (obj("v1", "PersistentVolumeClaim", {"phase": "Pending"}), "not bound"),
    "Namespace": (obj("v1", "Namespace", {"phase": "Terminating"}), "not active"),
    "Autoscaler": (obj("autoscaling/v2", "HorizontalPodAutoscaler"), "not able"),
    "custom": (obj("acme.io/v1", "Thing", condition("Ready", "False")), "Ready is False"),
    "custom of an old generation": (
        obj("acme.io/v1", "Thing", {"observedGeneration": 1, **condition("Ready")}, generation=2),
        "has not seen",
    ),
    "custom, a condition of an old generation": (
        obj("acme.io/v1", "Thing", condition("Ready", observedGeneration=1), generation=2),
        "Ready is not of its last change",
    ),
    "restored with the status of its former life": (
        obj("apps/v1", "Deployment", {"observedGeneration": 7, **full(1)}),
        "has not seen",
    ),
    "any kind of an old generation": (
        obj("autoscaling/v2", "HorizontalPodAutoscaler", generation=2)
        | {"status": {"observedGeneration": 1, **condition("AbleToScale")}},
        "has not seen",
    ),
    "custom Unknown": (
        obj("acme.io/v1", "Thing", condition("Ready", "Unknown", reason="Issuing")),
        "Ready is Unknown (Issuing)",
    ),
    "custom, lower case": (obj("acme.io/v1", "Thing", condition("Ready", "true")), "is true"),
    "custom Reconciling": (
        obj("acme.io/v1", "Thing", condition("Reconciling", reason="Progressing")),
        "works on it (Progressing)",
    ),
    "Deployment over its quota": (
        deployment(1, **condition("ReplicaFailure", **QUOTA)),
        "0 of 1 replicas are updated (FailedCreate: exceeded quota)",
    ),
    "Deployment paused": (
        deployment(1, **condition("Progressing", "Unknown", reason="DeploymentPaused")),
        "updated (DeploymentPaused)",
    ),
    "Deployment with more than it wants": (
        deployment(1, **full(3)),
        "3 replicas still run, 1 are wanted",
    ),
    "ReplicaSet": (obj("apps/v1", "ReplicaSet", {"observedGeneration": 1}), "0 of 1 replicas"),
    "StatefulSet with more than it wants": (
        obj("apps/v1", "StatefulSet", {"observedGeneration": 1, **full(2)}, replicas=1),
        "2 replicas still run, 1 are wanted",
    ),
    "StatefulSet before its minReadySeconds": (
        obj("apps/v1", "StatefulSet", {"observedGeneration": 1, **full(1), "availableReplicas": 0})
        | {"spec": {"replicas": 1, "minReadySeconds": 60}},
        "0 of 1 replicas are available",
    ),
    "Job that will fail": (
        obj("batch/v1", "Job", condition("FailureTarget", reason="DeadlineExceeded")),
        "not completed yet (DeadlineExceeded)",
    ),
    "Pod on a machine that is gone": (
        obj("v1", "Pod", {"phase": "Unknown", **condition("Ready")}),
        "does not answer",
    ),
    "Pod without an image": (
        obj("v1", "Pod", {"phase": "Pending", **condition("Ready", "False")})
        | {"status": {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]}},
        "not ready (ErrImagePull)",
    ),
    "Pod without a machine": (
        obj("v1", "Pod", condition("PodScheduled", "False", reason="Unschedulable")),
        "not ready (Unschedulable)",
    ),
    "Pod that cannot be resized": (
        obj("v1", "Pod", condition("Ready"))
        | {
            "status": {
                "phase": "Running",
                "conditions": [
                    *condition("Ready")["conditions"],
                    *condition("PodResizePending", reason="Infeasible")["conditions"],
                ],
            }
        },
        "has not the resources that it requests (Infeasible)",
    ),
    "Service of which a port is not served": (
        obj("v1", "Service", type="LoadBalancer")
        | {"status": {**LB, **condition("LoadBalancerPortsError", reason="MixedProtocols")}},
        "does not serve every port (MixedProtocols)",
    ),
    "Autoscaler without a metric": (
        obj(
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            {
                "conditions": [
                    *condition("AbleToScale")["conditions"],
                    *condition("ScalingActive", "False", reason="FailedGetScale")["conditions"],
                ]
            },
        ),
        "nothing to scale by (FailedGetScale)",
    ),
    "ReplicationController": (obj("v1", "ReplicationController"), "0 of 1 replicas are ready"),
    "volume that was released": (
        obj("v1", "PersistentVolume", {"phase": "Released"}),
        "neither available nor bound",
    ),
    "copy under way": (
        obj("snapshot.storage.k8s.io/v1", "VolumeSnapshot", {"readyToUse": False}),
        "the copy is not ready to use",
    ),
    "copy with an error": (
        obj("snapshot.storage.k8s.io/v1", "VolumeSnapshot", {"error": {"message": "secret"}}),
        "not ready to use (it has an error)",
    ),
    "Claim that grows": (claim("2Gi", "1Gi"), "smaller than it requests"),
    "Claim that waits for a Pod to grow": (
        claim("2Gi", "1Gi", {"type": "FileSystemResizePending", "status": "True"}),
        "smaller than it requests (FileSystemResizePending)",
    ),
}


@pytest.mark.criterion("READY-KINDS")
@pytest.mark.parametrize("name", NOT_READY_OBJECTS)
def test_not_ready_with_a_reason(name: str) -> None:
    found, reason = NOT_READY_OBJECTS[name]
    assessed = assess(found)
    assert assessed.phase is Phase.NOT_READY
    assert reason in assessed.reason


@pytest.mark.criterion("READY-FAILED")
@pytest.mark.parametrize(
    "found",
    [
        obj("batch/v1", "Job", condition("Failed", reason="BackoffLimitExceeded")),
        obj("v1", "PersistentVolumeClaim", {"phase": "Lost"}),
        obj("v1", "Pod", {"phase": "Failed"}),
        obj("acme.io/v1", "Thing", condition("Stalled")),
        obj("acme.io/v1", "Thing", {"phase": "Failed"}),
        obj("v1", "PersistentVolume", {"phase": "Failed"}),
        obj(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            condition("NamesAccepted", "False", reason="PluralConflict"),
        ),
        deployment(1, **condition("Progressing", "False", reason="ProgressDeadlineExceeded")),
    ],
)
def test_failed(found: dict[str, Any]) -> None:
    assert assess(found).phase is Phase.FAILED


@pytest.mark.criterion("READY-KINDS")
def test_what_is_being_deleted_is_not_ready_and_a_claim_may_wait_for_its_pod() -> None:
    doomed = deployment(1, **full(1))
    doomed["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:00Z"
    assert assess(doomed).phase is Phase.NOT_READY
    pending = obj("v1", "PersistentVolumeClaim", {"phase": "Pending"})
    assert assess(pending, binds_on_first_use=True) == READY
    pending, _ = NOT_READY_OBJECTS["Claim that waits for a Pod to grow"]
    assert assess(pending, binds_on_first_use=True) == READY


WAITING = not_ready("0 of 1 replicas are ready")
KEY = ("uid-of-a", "web")


@pytest.mark.criterion("READY-TIMEOUT")
def test_the_clock_starts_with_a_new_revision_and_not_with_a_repeated_apply() -> None:
    timers = ReadinessTimers()
    timers.applied(KEY, "r1", NOW)
    assert timers.observe(KEY, "r1", WAITING, MINUTE, NOW)[1] == MINUTE
    timers.applied(KEY, "r1", NOW + MINUTE / 2)
    assert timers.observe(KEY, "r1", WAITING, MINUTE, NOW + MINUTE / 2)[1] == MINUTE / 2
    late, again = timers.observe(KEY, "r1", WAITING, MINUTE, NOW + MINUTE)
    assert (late.phase, again) == (Phase.FAILED, None)
    assert late.reason == "not ready within 60 s: 0 of 1 replicas are ready"
    timers.applied(KEY, "r2", NOW + MINUTE)
    assert timers.observe(KEY, "r2", WAITING, MINUTE, NOW + MINUTE)[1] == MINUTE


@pytest.mark.criterion("READY-OLD-WORKLOAD")
def test_a_healthy_old_workload_that_loses_a_pod_is_never_failed_for_it() -> None:
    timers = ReadinessTimers()
    timers.applied(KEY, "r1", NOW)
    timers.observe(KEY, "r1", READY, MINUTE, NOW)
    months_later = NOW + timedelta(days=90)
    for elapsed in (timedelta(0), MINUTE, 60 * MINUTE):
        assert timers.observe(KEY, "r1", WAITING, MINUTE, months_later + elapsed) == (WAITING, None)
    after_a_restart = ReadinessTimers()
    for elapsed in (timedelta(0), MINUTE):
        now = months_later + elapsed
        found = after_a_restart.observe(KEY, "r1", WAITING, MINUTE, now, ready_before=True)
        assert found == (WAITING, None)
    recovered, _ = timers.observe(KEY, "r1", READY, MINUTE, months_later + MINUTE / 2)
    assert recovered == READY
    made_again = months_later + MINUTE
    timers.applied(KEY, "r1", made_again)
    assert timers.observe(KEY, "r1", WAITING, MINUTE, made_again) == (WAITING, MINUTE)


@pytest.mark.criterion("READY-RESTART")
def test_what_the_status_calls_failed_stays_failed_over_a_restart_until_it_is_ready() -> None:
    timers = ReadinessTimers()
    state, _ = timers.observe(KEY, "r1", WAITING, MINUTE, NOW, failed_before=True)
    assert state.phase is Phase.FAILED
    assert timers.observe(KEY, "r1", READY, MINUTE, NOW, failed_before=True)[0] == READY
    state, _ = timers.observe(KEY, "r1", WAITING, MINUTE, NOW, failed_before=True)
    assert state == WAITING


@pytest.mark.criterion("READY-FAILED")
def test_a_failure_of_the_object_itself_needs_no_timeout() -> None:
    timers = ReadinessTimers()
    state, _ = timers.observe(KEY, "r1", failed("the job failed"), MINUTE, NOW)
    assert state.reason == "the job failed"


@pytest.mark.criterion("L-2")
def test_clocks_go_with_their_tenant_however_many_there_are() -> None:
    informer = FakeInformer()
    memory = PerUID[Watches](informer)
    timers = ReadinessTimers(memory)
    tenants = [entry(f"uid-{number}") for number in range(5000)]
    for each in tenants:
        informer.there.add(each.uid)
        timers.observe((each.uid, "web"), "r1", WAITING, MINUTE, NOW)
    for each in tenants[1:]:
        informer.there.discard(each.uid)
        informer.handler(DeleteEvent(each))
        timers.applied((each.uid, "web"), "r2", NOW)  # by a pass that ends after the event
    assert list(memory) == ["uid-0"]
    successor = UpdateEvent(tenants[0], entry("uid-of-another"))
    informer.handler(successor)
    assert len(memory) == 0


class FakeInformer:
    """An informer, and its own store, with the UIDs that are there."""

    def __init__(self) -> None:
        self.there: set[str] = set()

    @property
    def store(self) -> Self:
        return self

    def add_handler(self, handler: Callable[[Event], None], /) -> None:
        self.handler = handler

    def add_drop_handler(self, handler: Callable[[Entry], None], /) -> None:
        """Nothing has a slot here."""

    def get(self, name: str, *, namespace: str) -> Entry | None:
        raise NotImplementedError

    def count(self, index: str, value: str) -> int:
        assert index == "uid"
        return int(value in self.there)


def entry(uid: str) -> Entry:
    metadata = {"name": "a", "namespace": "default", "uid": uid, "resourceVersion": "1"}
    decoder = EntryDecoder(Tenant.gvk())
    return decoder.decode_manifest({"apiVersion": "v1", "kind": "Tenant", "metadata": metadata})
