"""What the conditions of a ScheduledVolumeSnapshot say. Pure."""

from datetime import datetime

from apis.cosmos import ScheduledVolumeSnapshotStatus, SnapshotPhase
from ctrlruntime.api import Condition, set_condition
from internal.cosmos.snapshots.facts import Facts
from internal.cosmos.snapshots.machine import is_stuck

READY = "Ready"
CRDS_AVAILABLE = "CRDsAvailable"


def crds_available(served: bool, generation: int) -> Condition:
    """Whether the cluster serves VolumeSnapshots."""
    return Condition(
        type=CRDS_AVAILABLE,
        status="True" if served else "False",
        reason="Served" if served else "NotServed",
        message="the cluster serves VolumeSnapshots"
        if served
        else "install the snapshot controller and the CustomResourceDefinitions of "
        "snapshot.storage.k8s.io; it goes on by itself then",
        observed_generation=generation,
    )


def conclude(
    before: ScheduledVolumeSnapshotStatus,
    status: ScheduledVolumeSnapshotStatus,
    facts: Facts,
    now: datetime,
) -> None:
    """Set the conditions of `status`, in place; they keep their times from `before`."""
    status.conditions = [each.model_copy() for each in before.conditions]
    status.observed_generation = facts.generation
    set_condition(status.conditions, crds_available(facts.served, facts.generation), now)
    set_condition(status.conditions, _ready(status, facts), now)


def _ready(status: ScheduledVolumeSnapshotStatus, facts: Facts) -> Condition:
    last, ready = status.last_snapshot, False
    if facts.problem:
        word, message = "BadSchedule", facts.problem
    elif not facts.served:
        word, message = "MissingCRDs", "the cluster does not serve VolumeSnapshots"
    elif is_stuck(status):
        node = status.candidate.pod_name if status.candidate else "a node"
        word, message = "NodeHeldDown", f"{node} stays down: its pause cannot be lifted"
    elif last is not None and last.failed:
        word, message = "SnapshotFailed", f"{last.name}: {last.failed}"
    elif status.phase is SnapshotPhase.SUSPENDED:
        ready, word, message = True, "Suspended", "no snapshots are made while it is suspended"
    else:
        ready, word, message = True, "Scheduled", "snapshots are made by the schedule"
    return Condition(
        type=READY,
        status="True" if ready else "False",
        reason=word,
        message=message,
        observed_generation=facts.generation,
    )
