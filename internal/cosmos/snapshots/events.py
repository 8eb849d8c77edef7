"""The events of regular snapshots: troubles, once each. Pure."""

from enum import StrEnum

from apis.cosmos import ScheduledVolumeSnapshotStatus, SnapshotPhase
from ctrlruntime.api import find_condition
from internal.cosmos.snapshots.conditions import DEPRECATED
from internal.cosmos.snapshots.facts import Facts
from internal.cosmos.snapshots.machine import is_stuck

Status = ScheduledVolumeSnapshotStatus
Phase = SnapshotPhase


class Reason(StrEnum):
    """Reasons of events of this controller."""

    MISSING_CRDS = "MissingCRDs"
    """The cluster does not serve VolumeSnapshots."""
    DELETE_OLD_SNAPSHOTS = "DeleteOldSnapshotsError"
    """A snapshot beyond the limit, or one that failed, could not be deleted."""
    FIND_NEXT_TIME = "FindNextSnapshotTimeError"
    """The schedule cannot be read."""
    FIND_CANDIDATE = "FindCandidateError"
    """No node can be taken."""
    DELETE_POD = "DeletePodError"
    """The node cannot be taken down."""
    WAITING_FOR_POD_DELETION = "WaitingForPodDeletionError"
    """The node's Pod does not end."""
    CREATE_SNAPSHOT = "CreateVolumeSnapshotError"
    """The snapshot cannot be made."""
    SNAPSHOT_READY = "VolumeSnapshotReadyError"
    """The snapshot failed, or did not become ready in time."""
    RESTORE_POD = "RestorePodError"
    """The node is not back."""
    DEPRECATED_FIELD = "DeprecatedField"
    """The spec gives a field that is ignored."""


Note = tuple[Reason, str]

OF_PHASE = {
    Phase.FINDING_CANDIDATE: Reason.FIND_CANDIDATE,
    Phase.DELETING_POD: Reason.DELETE_POD,
    Phase.WAITING_FOR_POD_DELETION: Reason.WAITING_FOR_POD_DELETION,
    Phase.CREATING_SNAPSHOT: Reason.CREATE_SNAPSHOT,
    Phase.WAITING_FOR_SNAPSHOT_CREATION: Reason.SNAPSHOT_READY,
    Phase.RESTORING_POD: Reason.RESTORE_POD,
    Phase.WAITING_FOR_POD_RESTORATION: Reason.RESTORE_POD,
    Phase.WAITING_FOR_NEXT: Reason.DELETE_OLD_SNAPSHOTS,
    Phase.SUSPENDED: Reason.DELETE_OLD_SNAPSHOTS,
}
"""How a failure in a phase is reported."""


def of_step(before: Status, after: Status, facts: Facts) -> list[Note]:
    """Return the events of a changed status. An unchanged one has none, also after a restart."""
    found: list[Note] = []
    if after.phase is Phase.MISSING_CRDS and before.phase is not Phase.MISSING_CRDS:
        found.append((Reason.MISSING_CRDS, after.status))
    if facts.problem and after.status == facts.problem and before.status != facts.problem:
        found.append((Reason.FIND_NEXT_TIME, facts.problem))
    deprecated = find_condition(after.conditions, DEPRECATED)
    if deprecated is not None and find_condition(before.conditions, DEPRECATED) is None:
        found.append((Reason.DEPRECATED_FIELD, deprecated.message))
    found += _failure(before, after)
    looking = after.phase is Phase.FINDING_CANDIDATE and after.candidate is None
    if looking and after.status != before.status and after.status.startswith("Cannot"):
        found.append((Reason.FIND_CANDIDATE, after.status))
    if is_stuck(after) and not is_stuck(before):
        found.append((Reason.RESTORE_POD, after.status))
    waited = before.phase is Phase.WAITING_FOR_POD_RESTORATION and before.candidate is not None
    ended = after.phase not in (Phase.WAITING_FOR_POD_RESTORATION, Phase.RESTORING_POD)
    if waited and ended and facts.node_set and facts.wanted and not facts.back and before.candidate:
        text = (
            f"{before.candidate.pod_name} is not back in sync in time; it is no longer waited for"
        )
        found.append((Reason.RESTORE_POD, text))
    return found


def _failure(before: Status, after: Status) -> list[Note]:
    last, known = after.last_snapshot, before.last_snapshot
    if last is None or not last.failed:
        return []
    if known is not None and (known.name, known.failed) == (last.name, last.failed):
        return []
    phase = before.phase or Phase.WAITING_FOR_NEXT
    reason = OF_PHASE[phase] if phase in _MAKING else Reason.FIND_CANDIDATE
    return [(reason, f"{last.name}: {last.failed}")]


_MAKING = frozenset(OF_PHASE) - {Phase.WAITING_FOR_NEXT, Phase.SUSPENDED}
