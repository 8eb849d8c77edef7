"""How long a Pod that has ended stays before it is made anew. Pure.

A machine that refuses each Pod at once (OutOfcpu, NodeAffinity, UnexpectedAdmissionError) ends tens of them a second.
As for a DaemonSet's Pods the wait doubles while they end soon after they were created.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from ctrlruntime.backoff import exponential
from ctrlruntime.cache.entry import Entry
from internal.cosmos.workload.pod_failure import created

FIRST: Final = 5.0
"""Seconds that the second in a row stays; the first goes at once."""
LONGEST: Final = 300.0
LASTED: Final = timedelta(minutes=10)
"""A Pod that lasted for so long begins a new row."""
_KEPT: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class _End:
    uid: str
    at: datetime
    before: int
    """Pods of this name that ended soon, one after the other, before this one."""

    @property
    def until(self) -> datetime:
        wait = exponential(FIRST, LONGEST, self.before - 1) if self.before else 0.0
        return self.at + timedelta(seconds=wait)


@dataclass(frozen=True, slots=True)
class EndedPods:
    """The last ends by owner and name of the Pod. Lost with the process, which shortens a wait."""

    now: Callable[[], datetime]
    _ends: dict[tuple[str, str], _End] = field(default_factory=dict)

    def wait(self, owner_uid: str, entry: Entry) -> tuple[float, bool]:
        """Return the seconds until an ended Pod may be deleted, and whether it was not seen before."""
        now, key = self.now(), (owner_uid, entry.name)
        last = self._ends.get(key)
        if last is None or last.uid != entry.uid:
            row = last is not None and now - created(entry, now) < LASTED
            before = last.before + 1 if row and last is not None else 0
            self._forget(now)
            self._ends[key] = _End(entry.uid, now, before)
        left = (self._ends[key].until - now).total_seconds()
        return max(left, 0.0), last is None or last.uid != entry.uid

    def _forget(self, now: datetime) -> None:
        for key in [key for key, end in self._ends.items() if now - end.at > _KEPT]:
            del self._ends[key]
