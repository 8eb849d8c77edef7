"""The events of self-healing, each once."""

from collections.abc import Hashable
from enum import StrEnum
from typing import Final

from ctrlruntime.cache.entry import Entry
from ctrlruntime.events import EventRecorder

ACTION: Final = "SelfHeal"
"""What led to the events."""


class Reason(StrEnum):
    """Reasons of events."""

    COLLECT_USAGE = "PVCAutoScaleCollectUsage"
    """The usage of none of a set's disks is known."""
    SIGNAL_RESIZE = "PVCAutoScaleSignalResize"
    """A larger disk could not be asked for."""
    AUTO_SCALE = "PVCAutoScale"
    """A larger disk was asked for."""
    CANNOT_EXPAND = "PVCAutoScaleCannotExpand"
    """A disk is full and cannot grow."""
    HEIGHT_DRIFT = "HeightDriftMitigation"
    """A node that fell behind is started again."""
    DELETE_POD = "HeightDriftMitigationDeletePod"
    """A node that fell behind could not be started again."""
    UNRESPONSIVE = "NodeUnresponsive"
    """A node that does not answer any more is started again."""
    RESTART_FAILED = "NodeUnresponsiveDeletePod"
    """A node that does not answer could not be started again."""
    CRASH_LOOP = "NodeKeepsEnding"
    """A container of a node keeps ending."""
    AT_CEILING = "PVCAutoScaleAtCeiling"
    """A disk is full, and as large as it may become."""


class Notes:
    """Records events. A trouble that lasts is reported when it begins, not at every check."""

    def __init__(self, recorder: EventRecorder) -> None:
        self._recorder = recorder
        self._troubles: dict[Hashable, set[tuple[Reason, str]]] = {}

    def done(self, entry: Entry, reason: Reason, text: str) -> None:
        """Something was done."""
        self._recorder.event(entry, "Normal", reason, ACTION, text)

    def failed(self, entry: Entry, reason: Reason, text: str) -> None:
        """Report a failed attempt, each time."""
        self._recorder.event(entry, "Warning", reason, ACTION, text)

    def trouble(self, entry: Entry, reason: Reason, subject: str, text: str) -> bool:
        """Something is wrong with `subject`, and may be so for long. True if it was not known to be."""
        known = self._troubles.setdefault(entry.key, set())
        if (reason, subject) in known:
            return False
        known.add((reason, subject))
        self.failed(entry, reason, text)
        return True

    def well(self, entry: Entry, reason: Reason, subject: str) -> None:
        """Nothing is wrong with `subject`, or no longer."""
        self._troubles.get(entry.key, set()).discard((reason, subject))

    def forget(self, namespace: str, name: str) -> None:
        """Forget a set that is gone, or wants nothing of this any more."""
        self._troubles.pop((namespace, name), None)
