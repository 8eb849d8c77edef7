"""The events of a set of nodes: troubles, and which Pods were taken away and why."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from apis.cosmos import CosmosFullNodeStatus, FullNodePhase
from ctrlruntime.api import Condition
from ctrlruntime.api.conditions import find_condition, shorten
from ctrlruntime.cache.entry import Entry
from ctrlruntime.events import EventRecorder
from internal.cosmos.fullnode.full_disks import DISKS_FULL
from internal.cosmos.workload.lost_disks import LOSING
from internal.cosmos.workload.pod_trouble import names_trouble


class Reason(StrEnum):
    """Reasons of events of this controller."""

    P2P_INCOMPLETE = "P2PIncomplete"
    """Addresses for peers outside are not there yet."""
    ERROR_TRANSIENT = "ErrorTransient"
    """Something failed that is tried again."""
    ERROR = "Error"
    """A failure that a person has to resolve."""
    PVC_PATCH_FAILED = "PVCPatchFailed"
    """A disk could not be made larger."""
    BUILDER_CHANGE_HELD = "BuilderChangeHeld"
    """A new manager would build something in another way, and does not."""
    DISK_BEING_DELETED = "DiskBeingDeleted"
    """The claim of a running node is being deleted."""
    DISKS_FULL = "DisksFull"
    """Disks are nearly full, and nothing makes them larger."""
    DELETIONS_HELD = "DeletionsHeld"
    """Disks are to go, and wait for an approval."""
    ROLLOUT_HALTED = "RolloutHalted"
    """Failed Pods halt a rollout."""
    ROLLOUT_BLOCKED = "RolloutBlocked"
    """A change waits for a Pod that does not run."""
    POD_REPLACED = "PodReplaced"
    """A Pod is made anew."""
    POD_REMOVED = "PodRemoved"
    """A Pod was taken away, for ever or for a snapshot."""
    POD_ENDED = "PodEnded"
    """A Pod that had ended is made anew."""
    NODE_KEY_MADE = "NodeKeyMade"
    """The Secret with the key of an existing node was gone, and the node has a new identity."""
    DISRUPTION_BUDGET_EXISTS = "DisruptionBudgetExists"
    """A PodDisruptionBudget of another owner selects the Pods, so none is made."""
    IMMUTABLE_FIELD_CHANGED = "ImmutableFieldChanged"
    """A claim differs from the spec in what cannot be changed."""
    CANNOT_SHRINK = "CannotShrink"
    """A claim is larger than the spec requests."""
    CANNOT_EXPAND = "CannotExpand"
    """The StorageClass of a claim does not let it grow."""
    RESIZE_FAILED = "ResizeFailed"
    """The storage refuses a larger size."""
    STORAGE_CLASS_MISSING = "StorageClassMissing"
    """A claim names a StorageClass that is not there."""
    FILE_SYSTEM_RESIZE_PENDING = "FileSystemResizePending"
    """A file system grows when its Pod starts anew."""


ACTION: Final = "Reconcile"
"""What led to an event of a phase."""

_OF_PHASE = {
    FullNodePhase.TRANSIENT_ERROR: Reason.ERROR_TRANSIENT,
    FullNodePhase.ERROR: Reason.ERROR,
    FullNodePhase.WAITING_FOR_P2P_SERVICES: Reason.P2P_INCOMPLETE,
}


@dataclass(frozen=True, slots=True)
class Note:
    """An event to record."""

    reason: StrEnum
    text: str
    warning: bool = True


def of_status(before: CosmosFullNodeStatus, after: CosmosFullNodeStatus) -> list[Note]:
    """Return the events of a changed status. An unchanged one has none, also after a restart."""
    found: list[Note] = []
    reason = _OF_PHASE.get(after.phase) if after.phase is not None else None
    if reason is not None and (before.phase, before.status) != (after.phase, after.status):
        found.append(Note(reason, after.status))
    for kind, bad, told in (
        ("BuilderChangeHeld", "True", Reason.BUILDER_CHANGE_HELD),
        ("ClaimsAsSpecified", "False", Reason.IMMUTABLE_FIELD_CHANGED),
        ("RolloutHalted", "True", Reason.ROLLOUT_HALTED),
        (LOSING, "True", Reason.DISK_BEING_DELETED),
        (DISKS_FULL, "True", Reason.DISKS_FULL),
        ("DeletionsHeld", "True", Reason.DELETIONS_HELD),
    ):
        now, then = _condition(after, kind, bad), _condition(before, kind, bad)
        if now is not None and (then is None or now.message != then.message):
            reason = Reason(now.reason) if told is Reason.IMMUTABLE_FIELD_CHANGED else told
            warning = told is not Reason.BUILDER_CHANGE_HELD
            found.append(Note(reason, now.message, warning=warning))
    blocked = after.rollout.blocked
    if names_trouble(blocked) and blocked != before.rollout.blocked:
        found.append(Note(Reason.ROLLOUT_BLOCKED, shorten(f"The change waits: {blocked}.")))
    return found


def record(recorder: EventRecorder, entry: Entry, notes: Iterable[Note]) -> None:
    """Record them on a set."""
    for note in notes:
        recorder.event(
            entry, "Warning" if note.warning else "Normal", note.reason, ACTION, note.text
        )


def _condition(status: CosmosFullNodeStatus, kind: str, bad: str) -> Condition | None:
    condition = find_condition(status.conditions, kind)
    return condition if condition is not None and condition.status == bad else None
