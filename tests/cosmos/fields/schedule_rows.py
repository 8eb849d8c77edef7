"""The reference's tables A1.6 and A1.7: regular snapshots, and Jobs on them."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from apis.cosmos import JobRecord, ScheduledVolumeSnapshot, StatefulJob, StatefulJobStatus
from ctrlruntime.api.scalars import Quantity
from ctrlruntime.json import Json
from internal.cosmos.datasource import FoundSource
from internal.cosmos.snapshots.effects import Create
from internal.cosmos.snapshots.snapshot_builder import build
from internal.cosmos.statefuljob.history import timing
from internal.cosmos.statefuljob.job_builder import build_claim, build_job
from tests.cosmos.snapshots.fake_cluster import BEGIN, Cluster, Copy, Schedule, spec

from .objects import Seen
from .row import Given, Row, at

POD: Final = {"containers": [{"name": "main", "image": "busybox"}]}
STORAGE: Final = {"storageClassName": "standard"}


def _due(given: Given, cluster: Cluster | None = None) -> Schedule:
    """Ten minutes after a schedule began: the first time of `*/10 * * * *` is due."""
    schedule = Schedule(cluster or Cluster(), spec(**given))
    schedule.look()
    schedule.cluster.pass_time(minutes=10)
    schedule.look()
    return schedule


def _reference(given: Given) -> Json:
    """The set that is looked for, by the message where there is none."""
    return _due(given, Cluster(exists=False)).status.status.split("CosmosFullNode ")[-1].split()[0]


def _candidate(given: Given) -> Json:
    """The Pod whose disk is copied."""
    found = _due(given).status.candidate
    return None if found is None else found.pod_name


def _minutes_to_next(given: Given) -> Json:
    """Minutes from the beginning to the first time."""
    schedule = Schedule(Cluster(), spec(**given))
    next_at = schedule.look().next_at
    return None if next_at is None else int((next_at - BEGIN).total_seconds() // 60)


def _snapshot_class(given: Given) -> Json:
    """The class of the VolumeSnapshot that is made."""
    schedule = ScheduledVolumeSnapshot(spec=spec(**given))
    schedule.metadata.name, schedule.metadata.namespace = "nightly", "chains"
    made = build(schedule, Create("nightly-1", "pvc-chain-0", {}, 0)).manifest
    return made["spec"]["volumeSnapshotClassName"]


def _pods_down(given: Given) -> Json:
    """Pods that are taken down for a copy. The cluster's own schedules stop nodes unless they are given otherwise."""
    return list(_due({"deletePod": False, **given}).cluster.down.values())


def _phase_with_two_in_sync(given: Given) -> Json:
    """The phase at the first time, with two of three nodes in sync."""
    found = _due(given, Cluster(lagging={"chain-2"})).status.phase
    return None if found is None else found.value


def _kept_of_five(given: Given) -> Json:
    """How many of five complete copies stay."""
    cluster = Cluster()
    for day in range(5):
        cluster.copies[f"nightly-{day}"] = Copy(
            "nightly", BEGIN - timedelta(days=9 - day), ready=True
        )
    schedule = Schedule(cluster, spec(**given))
    schedule.look()
    return len(schedule.made_by_us())


def _phase_at_first(given: Given) -> Json:
    """The phase when the first time is there."""
    found = _due({"deletePod": False, **given}).status.phase
    return None if found is None else found.value


def _job(**fields: object) -> StatefulJob:
    base = {
        "selector": {"app": "chain"},
        "podTemplate": {"spec": POD},
        "volumeClaimTemplate": STORAGE,
    }
    manifest = {"metadata": {"name": "weekly", "namespace": "chains"}, "spec": {**base, **fields}}
    return StatefulJob.model_validate(manifest)


def _record() -> JobRecord:
    return JobRecord(name="weekly-1", scheduled_at=BEGIN, started_at=BEGIN)


def _of_job(path: str) -> Seen:
    """A field of the Job that is made."""
    return lambda given: at(build_job(_job(**given), _record()).manifest, path)


def _of_claim(path: str) -> Seen:
    """A field of the claim that is made."""
    source = FoundSource({"kind": "VolumeSnapshot", "name": "copy"}, Quantity("5Gi"))
    return lambda given: at(build_claim(_job(**given), _record(), source).manifest, path)


def _hours_between(given: Given) -> Json:
    """Hours from the start of one Job to that of the next."""
    status = StatefulJobStatus(created_at=BEGIN, job_history=[_record()])
    found = timing(_job(**given).spec, status, BEGIN).next
    return None if found is None else (found - BEGIN) / timedelta(hours=1)


def _disks(given: Given) -> Json:
    """Volumes of the Job's Pod, and what its container mounts."""
    made = _of_job("spec.template.spec")(given)
    mounts = [each.get("volumeMounts") for each in made["containers"]]
    return [made["restartPolicy"], [each["name"] for each in made["volumes"]], mounts]


def _named(**fields: object) -> dict[str, object]:
    return {"fullNodeRef": {"name": "chain", **fields}}


SCHEDULE: Final = (
    Row("A1.6", "fullNodeRef.name", _reference, _named(name="own"), "own", "chain", required=True),
    Row("A1.6", "fullNodeRef.namespace", _candidate, _named(namespace="elsewhere"), "chain-0", "chain-0",
        ignored=True, name="fullNodeRef.namespace",
        differs="Ignored, as there; condition `DeprecatedFields` and an event show it."),
    Row("A1.6", "fullNodeRef.ordinal", _candidate, _named(ordinal=2), "chain-2", "chain-0",
        rules={"minimum": 0}),
    Row("A1.6", "schedule", _minutes_to_next, {"schedule": "@every 6h"}, 360, 10, required=True,
        name="timeZone", differs="With `timeZone` the times are those of a place; without it UTC, as there."),
    Row("A1.6", "volumeSnapshotClassName", _snapshot_class, {"volumeSnapshotClassName": "slow"}, "slow",
        "fast", required=True),
    Row("A1.6", "deletePod", _pods_down, {"deletePod": True}, ["chain-0"], [],
        rules={"default": False}),
    Row("A1.6", "minAvailable", _phase_with_two_in_sync, {"minAvailable": 3}, "FindingCandidate",
        "WaitingForSnapshotCreation", besides={"deletePod": False}, rules={"default": 2, "minimum": 1}),
    Row("A1.6", "limit", _kept_of_five, {"limit": 2}, 2, 3, rules={"default": 3, "minimum": 1}),
    Row("A1.6", "suspend", _phase_at_first, {"suspend": True}, "Suspended",
        "WaitingForSnapshotCreation", rules={"default": False}),
)  # fmt: skip

JOB: Final = (
    Row("A1.7", "interval", _hours_between, {"interval": "90m"}, 1.5, 24, name="schedule",
        differs="Or `schedule`, a cron expression with `timeZone`."),
    Row("A1.7", "jobTemplate.activeDeadlineSeconds", _of_job("spec.activeDeadlineSeconds"),
        {"jobTemplate": {"activeDeadlineSeconds": 60}}, 60, 86400,
        rules={"default": 86400, "minimum": 1}),
    Row("A1.7", "jobTemplate.backoffLimit", _of_job("spec.backoffLimit"),
        {"jobTemplate": {"backoffLimit": 0}}, 0, 5, rules={"default": 5, "minimum": 0}),
    Row("A1.7", "jobTemplate.ttlSecondsAfterFinished", _of_job("spec.ttlSecondsAfterFinished"),
        {"jobTemplate": {"ttlSecondsAfterFinished": 0}}, 0, 900, rules={"default": 900, "minimum": 0}),
    Row("A1.7", "podTemplate.spec", _disks,
        {"podTemplate": {"spec": {**POD, "restartPolicy": "OnFailure", "volumes": [{"name": "own"}]}}},
        ["OnFailure", ["own", "snapshot"], [None]], ["Never", ["snapshot"], [None]], required=True),
    Row("A1.7", "volumeClaimTemplate.storageClassName", _of_claim("spec.storageClassName"),
        {"volumeClaimTemplate": {"storageClassName": "slow"}}, "slow", "standard", required=True),
    Row("A1.7", "volumeClaimTemplate.accessModes", _of_claim("spec.accessModes"),
        {"volumeClaimTemplate": {**STORAGE, "accessModes": ["ReadOnlyMany"]}}, ["ReadOnlyMany"],
        ["ReadWriteOnce"]),
)  # fmt: skip
