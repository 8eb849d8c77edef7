"""The version that a FleetRollout assigned to an instance, in place of the spec's. Pure.

The record is in the status, which only the manager writes, so that one write carries the version and the change, and so
that no tool that owns the spec fights it. It counts while the spec has the version that it had at the assignment: a
change of the spec wins. An annotation repeats the record, and wakes the controllers; one that differs is not followed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from apis.cloud import (
    GROUP,
    AssignedChange,
    AssignedVersion,
    Instance,
    InstanceStatus,
    Phase,
    TaskPriority,
)
from ctrlruntime.api.conditions import shorten
from ctrlruntime.cache.entry import Entry
from ctrlruntime.intake import DOCUMENT, read_json
from ctrlruntime.rollout import Change, change_record, read_change
from internal.cloud.labels import RELEASE_ASSIGNMENT

RECORD: Final = "releaseAssignment"
"""The field of the status that has the record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseAssignment:
    """A version for an instance: from which rollout, over which version of the spec, by which change."""

    rollout: str
    version: str
    spec_version: str
    change: Change
    priority: TaskPriority | None = None
    """How early the runs get a place that bring the instance to the version; None: Normal."""

    def as_status(self) -> AssignedVersion:
        """Return what the instance's status shows."""
        return AssignedVersion(
            version=self.version,
            rollout=self.rollout,
            spec_version=self.spec_version,
            assigned_at=self.change.at,
            change=AssignedChange.model_validate(change_record(self.change)),
            message=f"FleetRollout {self.rollout!r} assigned {self.version} in place of "
            f"{self.spec_version} of the spec: {self.change.kind.value}.",
        )


def format_assignment(assignment: ReleaseAssignment) -> str:
    """Return the value of the record and of the annotation."""
    record = {
        "rollout": assignment.rollout,
        "version": assignment.version,
        "specVersion": assignment.spec_version,
        "change": change_record(assignment.change),
    }
    if assignment.priority is not None:
        record["priority"] = assignment.priority.value
    return json.dumps(record, separators=(",", ":"))


def recorded_assignment(holder: Instance | Entry) -> ReleaseAssignment | None:
    """Return the assignment that a rollout recorded, in force or not; None if there is none."""
    if isinstance(holder, Entry):
        return parse_assignment(str((holder.field("status") or {}).get(RECORD, "")))
    found = parse_assignment(holder.status.release_assignment)
    return _reported(holder.status.assigned_version) if found is None else found


def _reported(known: AssignedVersion | None) -> ReleaseAssignment | None:
    """Return the assignment of a status that has what counts, and no record."""
    if known is None or known.change is None:
        return None
    change = read_change(known.change.model_dump(exclude_defaults=False))
    if change is None:
        return None
    return ReleaseAssignment(
        rollout=known.rollout,
        version=known.version,
        spec_version=known.spec_version,
        change=change,
    )


def parse_assignment(text: str) -> ReleaseAssignment | None:
    """Return an assignment that was formatted; None if it cannot be read."""
    try:
        record = read_json(text, DOCUMENT)
        change = read_change(record["change"])
        texts = [str(record[key]) for key in ("rollout", "version", "specVersion")]
    except (ValueError, KeyError, TypeError):
        return None
    rollout, version, spec_version = texts
    if change is None or not version:
        return None
    return ReleaseAssignment(
        rollout=rollout,
        version=version,
        spec_version=spec_version,
        change=change,
        priority=_priority(record.get("priority")),
    )


def _priority(given: object) -> TaskPriority | None:
    return next((item for item in TaskPriority if item.value == given), None)


def repeats_record(instance: Instance) -> bool:
    """Whether the annotation of an instance is as its record."""
    record = recorded_assignment(instance)
    given = (instance.metadata.annotations or {}).get(RELEASE_ASSIGNMENT)
    return given == (None if record is None else format_assignment(record))


def lost_assignment(instance: Instance) -> ReleaseAssignment | None:
    """Return the recorded assignment if the annotation has another one, or lacks the one in force."""
    record = recorded_assignment(instance)
    if record is None or repeats_record(instance):
        return None
    given = parse_assignment((instance.metadata.annotations or {}).get(RELEASE_ASSIGNMENT, ""))
    return record if given is not None or assignment_in_force(instance) is not None else None


def forged_assignment(instance: Instance) -> str:
    """Return what is wrong with an annotation that no rollout recorded, and what to do; empty if nothing is.

    One that is older than the record may be a rollout's: a manager that ended between two writes left it.
    """
    record = recorded_assignment(instance)
    given = parse_assignment((instance.metadata.annotations or {}).get(RELEASE_ASSIGNMENT, ""))
    if given is None or repeats_record(instance):
        return ""
    if record is not None and given.change.at < record.change.at:
        return ""
    if record is not None and replace(given, priority=record.priority) == record:
        return ""
    name, namespace = instance.metadata.name, instance.metadata.namespace
    return shorten(
        f"The annotation {RELEASE_ASSIGNMENT} assigns {given.version[:63]!r} by FleetRollout {given.rollout[:63]!r}, "
        f"which did not record it: it is not followed. Remove it: `kubectl annotate instances.{GROUP} {name} "
        f"-n {namespace} {RELEASE_ASSIGNMENT}-`"
    )


def assignment_in_force(instance: Instance) -> ReleaseAssignment | None:
    """Return the assignment whose version counts; None if there is none, or the spec was changed since."""
    found = recorded_assignment(instance)
    if found is None or found.spec_version != instance.spec.wanted_version:
        return None
    return found


def assigned_version(instance: Instance) -> AssignedVersion | None:
    """Return what the status of an instance, as it was read, is to show; None: the spec's version counts."""
    found = assignment_in_force(instance)
    return None if found is None else found.as_status()


def with_progress(
    assigned: AssignedVersion | None,
    before: InstanceStatus,
    after: InstanceStatus,
    generation: int,
    now: datetime,
    inputs: str = "",
) -> AssignedVersion | None:
    """Return the assigned version with what was seen of it: when it was ready, and until when it waited.

    `inputs`: digest of what it shares with other instances; empty while that is not known.

    A rollout judges what it changed by this: what happens to an instance that was ready, and was edited since, is
    no failure of the change.
    """
    if assigned is None:
        return None
    known = before.assigned_version
    same = known is not None and is_same_assignment(known, assigned)
    seen = known if known is not None and same else assigned.model_copy(update=_UNSEEN)
    ready_at, ready_with, until = seen.ready_generation, seen.ready_inputs, seen.waited_until
    inputs = inputs or seen.inputs
    given = seen.given_inputs or inputs
    if not ready_at and after.phase is Phase.READY and after.version == assigned.version:
        ready_at, ready_with = generation, inputs
    if same and is_waiting(before) and not is_waiting(after):
        until = now
    if not ready_at and seen.inputs and inputs != seen.inputs:
        until = now  # what is shared was mended: the run that follows has its whole time
    return assigned.model_copy(
        update={
            "ready_generation": ready_at,
            "ready_inputs": ready_with,
            "given_inputs": given,
            "inputs": inputs,
            "waited_until": until,
        }
    )


_UNSEEN: Final[Mapping[str, object]] = {
    "ready_generation": 0,
    "ready_inputs": "",
    "given_inputs": "",
    "inputs": "",
    "waited_until": None,
}
"""Fields of an assigned version of which nothing was seen yet."""


def is_waiting(status: InstanceStatus) -> bool:
    """Whether an instance waits for its turn, an approval, a freeze, a window or the end of a pause."""
    return status.waiting is not None or status.phase is Phase.PAUSED


def is_same_assignment(one: AssignedVersion | None, other: AssignedVersion | None) -> bool:
    """Whether both are the same assignment, whatever was seen of it."""
    return _bare(one) == _bare(other)


def _bare(assigned: AssignedVersion | None) -> AssignedVersion | None:
    if assigned is None:
        return None
    return assigned.model_copy(update=_UNSEEN)


def version_that_counts(instance: Instance) -> str:
    """Return the version that an instance, as it was read, is to have: assigned, or else the spec's."""
    assigned = assigned_version(instance)
    return instance.spec.wanted_version if assigned is None else assigned.version


def with_assigned_version(instance: Instance) -> Instance:
    """Return an instance whose spec has the version that counts."""
    assigned = assigned_version(instance)
    if assigned is None or assigned.version == instance.spec.wanted_version:
        return instance
    spec = instance.spec.model_copy(
        update={"version": assigned.version, "sourcegraph_version": None}
    )
    return instance.model_copy(update={"spec": spec})
