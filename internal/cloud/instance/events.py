"""What is told of an instance: an event for each change of what people care about."""

from typing import Final

from apis.cloud import InstanceStatus, Phase
from ctrlruntime.cache.entry import Entry
from ctrlruntime.events import EventRecorder

ACTION: Final = "Reconcile"
AT_WORK: Final = frozenset({Phase.PENDING, Phase.WAITING, Phase.RUNNING})
"""One and the same here: its subresources tell which it is, each with events of its own."""
TROUBLE: Final = frozenset({Phase.FAILED, Phase.RETRYING})


def tell_phase(
    recorder: EventRecorder, entry: Entry, before: InstanceStatus, after: InstanceStatus
) -> None:
    """One event for a phase that was just written, if it is another than before. Its reason is the
    phase, its note the sentence of the status. A first roll-out is told when it ends."""
    if before.phase is after.phase or {before.phase, after.phase} <= AT_WORK:
        return
    recorder.event(
        entry,
        "Warning" if after.phase in TROUBLE else "Normal",
        after.phase.value,
        ACTION,
        after.message,
    )
