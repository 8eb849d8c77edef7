"""What the conditions of a ScheduledVolumeSnapshot say. Pure."""

from datetime import datetime

from apis.cosmos import ScheduledVolumeSnapshotStatus, SnapshotPhase
from ctrlruntime.api import Condition, remove_condition, set_condition
from ctrlruntime.lifecycle.remote import report_hub
from internal.cosmos.snapshots.facts import Facts
from internal.cosmos.snapshots.machine import is_stuck

READY = "Ready"
INVALID = "InvalidSpec"
"""Reason of Ready: a field of the spec cannot be used."""
CRDS_AVAILABLE = "CRDsAvailable"
DEPRECATED = "DeprecatedFields"


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


def deprecated_fields(generation: int) -> Condition:
    """Return the condition that is there while a deprecated field is given."""
    return Condition(
        type=DEPRECATED,
        status="True",
        reason="Ignored",
        message="spec.fullNodeRef.namespace is deprecated and ignored: the set is looked up in this object's "
        "namespace; remove the field",
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
    report_hub(status.conditions, [], facts.generation, now, used=False)
    if facts.deprecated:
        set_condition(status.conditions, deprecated_fields(facts.generation), now)
    else:
        remove_condition(status.conditions, DEPRECATED)


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
    elif status.failures is not None:
        word, message = (
            "SnapshotFailed",
            f"{status.failures.message}; the next attempt is under way",
        )
    elif status.phase is SnapshotPhase.SUSPENDED:
        ready, word, message = True, "Suspended", "no snapshots are made while it is suspended"
    elif not facts.node_set:
        word, message = "NodeSetMissing", "the CosmosFullNode of spec.fullNodeRef does not exist"
    else:
        ready, word, message = True, "Scheduled", "snapshots are made by the schedule"
    return Condition(
        type=READY,
        status="True" if ready else "False",
        reason=word,
        message=message,
        observed_generation=facts.generation,
    )
