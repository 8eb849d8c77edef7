"""The work queue as a pure data structure: no loop, no tasks, a clock passed in.

An item is in at most one of three places:

- *waiting*: scheduled for later (``after`` or a retry);
- *ready*: a worker may take it now;
- *held*: ready, but the same request is being processed; it becomes ready when that run is done.

Ready items leave in order of priority, and first in first out within one priority. On top of that
the queue **ages**: an item that has been ready for longer than ``Ageing.patience`` may overtake
every priority, but only ``1/share`` of the hand-outs goes that way. So nothing starves, and a fresh
event still waits for a handful of runs at most, however large the backlog behind it is.
controller-runtime's priority queue is strict and starves low priorities (its issue 3496); within
``patience`` seconds both behave alike.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Any, Generic, Protocol

from ctrlruntime.fast_dataclass import fast_dataclass
from ctrlruntime.queue.limiters import ItemExponential, Limiter
from ctrlruntime.queue.request import RequestT

MAX_REASONS = 16
"""Reasons and links kept per queued item; later ones are dropped, the item never is."""

_COMPACT_SLACK = 64
_NO_REASONS: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ageing:
    """Protects low priorities from starvation."""

    patience: float = 30.0
    """Seconds an item is ready before it may overtake higher priorities."""
    share: int = 4
    """Of so many hand-outs, one goes to the item that waited longest, if it is out of patience."""


@fast_dataclass(frozen=True, slots=True)
class Item(Generic[RequestT]):
    """What a worker is handed: the request, its priority, and what put it there."""

    request: RequestT
    priority: int = 0
    reasons: frozenset[str] = frozenset()
    links: tuple[Any, ...] = ()


class Observer(Protocol):
    """Receives durations, in seconds, as they are known. Counts are read from :class:`Stats`."""

    def waited(self, seconds: float) -> None:
        """Record an item that was handed out after being ready for ``seconds``."""

    def worked(self, seconds: float) -> None:
        """Record an item that was processed in ``seconds``."""


@dataclass(slots=True)
class Stats:
    """Running counts, cheap to keep and read when metrics are scraped."""

    adds: int = 0
    """Items that became ready."""
    retries: int = 0
    """Rate-limited additions. Unlike upstream, a plain ``after`` is not a retry."""
    depth: dict[int, int] = field(default_factory=dict)
    """Ready and held items by priority; a priority once seen stays, with 0."""


_IDLE = 0
_WAITING = 1
_READY = 2
_HELD = 3


class _Entry:
    """One request that is queued, being processed, or both. Compared by identity."""

    __slots__ = (
        "due",
        "links",
        "priority",
        "ready_at",
        "reasons",
        "request",
        "scheduled",
        "scheduled_at",
        "seq",
        "started",
        "state",
    )

    def __init__(self, request: Hashable) -> None:
        self.request: Any = request
        self.priority = 0
        self.state = _IDLE
        self.due = 0.0
        self.ready_at = 0.0
        self.seq = 0
        self.started: float | None = None
        self.reasons: frozenset[str] = _NO_REASONS
        self.links: tuple[Any, ...] = ()
        self.scheduled = ""
        self.scheduled_at = 0.0

    def schedule(self, reason: str, due: float) -> None:
        """Keep ``reason`` for a run at that time or later. Of several the earliest counts."""
        if not self.scheduled or due < self.scheduled_at:
            self.scheduled, self.scheduled_at = reason, due


class QueueCore(Generic[RequestT]):
    """A priority queue with delays, deduplication, ageing and retry limits.

    ``clock`` returns monotonic seconds. No method blocks. :class:`ctrlruntime.queue.queue.
    PriorityQueue` puts the waiting around it.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        limiter: Limiter | None = None,
        ageing: Ageing | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.stats = Stats()
        self.limiter: Limiter = limiter if limiter is not None else ItemExponential()
        self.shut_down = False
        self._clock = clock
        self._ageing = ageing if ageing is not None else Ageing()
        self._observer = observer
        self._entries: dict[Hashable, _Entry] = {}
        self._processing: dict[_Entry, float] = {}
        self._ready: dict[int, deque[tuple[int, _Entry]]] = {}
        """By priority, first in first out. A pair whose number is no longer the entry's is passed over."""
        self._priorities: list[int] = []
        """Negated, so that the highest comes first."""
        self._pairs = 0
        self._oldest: OrderedDict[_Entry, None] = OrderedDict()
        self._waiting: list[tuple[float, int, _Entry]] = []
        self._waiting_count = 0
        self._held_count = 0
        self._seq = 0
        self._since_aged = self._ageing.share

    def __len__(self) -> int:
        """Items a worker could work on now or after a run in progress; waiting ones not counted."""
        return len(self._oldest) + self._held_count

    @property
    def waiting(self) -> int:
        """Items that are scheduled for later."""
        return self._waiting_count

    @property
    def processing(self) -> int:
        """Items handed out and not done."""
        return len(self._processing)

    def add(
        self,
        request: RequestT,
        *,
        priority: int = 0,
        after: float | None = None,
        rate_limited: bool = False,
        reason: str = "",
        link: object = None,
        scheduled: bool = False,
    ) -> None:
        """Queue ``request``, at once or ``after`` seconds, or after the limiter's delay.

        With both delays the shorter counts. A request that is queued already is never doubled: its
        priority is raised and never lowered, the earlier time wins, reasons are joined. One that is
        being processed runs again after it is done. Ignored after shutdown.

        ``scheduled``: the reason is the delay itself, so that an earlier run does not have it.
        """
        if self.shut_down:
            return
        now = self._clock()
        if self._waiting and self._waiting[0][0] <= now:
            self.promote(now)
        delay = self._delay(request, after, rate_limited)
        entry = self._entries.get(request)
        if entry is None:
            entry = self._entries[request] = _Entry(request)
        if entry.state == _IDLE:
            entry.priority = priority
        elif priority > entry.priority:
            self._raise(entry, priority)
        if scheduled and delay > 0.0:
            entry.schedule(reason, now + delay)
        elif reason and reason not in entry.reasons and len(entry.reasons) < MAX_REASONS:
            entry.reasons |= {reason}
        if link is not None and len(entry.links) < MAX_REASONS:
            entry.links += (link,)
        if delay > 0.0:
            self._delay_until(entry, now + delay)
        elif entry.state == _WAITING:
            self._waiting_count -= 1
            self._make_ready(entry, now)
        elif entry.state == _IDLE:
            self._make_ready(entry, now)

    def pop(self) -> Item[RequestT] | None:
        """Return the next item, or ``None`` when nothing is ready. Call :meth:`done` after."""
        now = self._clock()
        if self._waiting:
            self.promote(now)
        entry = self._choose(now)
        if entry is None:
            return None
        del self._oldest[entry]
        self.stats.depth[entry.priority] -= 1
        self._processing[entry] = entry.started = now
        if entry.scheduled:
            if entry.scheduled_at <= now:
                entry.reasons |= {entry.scheduled}
            entry.scheduled = ""
        item: Item[RequestT] = Item(entry.request, entry.priority, entry.reasons, entry.links)
        entry.state = _IDLE
        entry.reasons = _NO_REASONS
        entry.links = ()
        if self._observer is not None:
            self._observer.waited(now - entry.ready_at)
        return item

    def done(self, request: RequestT) -> None:
        """End the processing of ``request``; a re-add in the meantime becomes ready."""
        entry = self._entries.get(request)
        if entry is None or entry.started is None:
            return
        if self._observer is not None:
            self._observer.worked(self._clock() - entry.started)
        entry.started = None
        del self._processing[entry]
        if entry.state == _HELD:
            self._held_count -= 1
            self._push_ready(entry)
        elif entry.state == _IDLE:
            del self._entries[request]

    def discard(self, unwanted: Callable[[RequestT], bool]) -> None:
        """Drop what is ready, held or waiting, with its failure count. What is being processed is not run again."""
        for entry in list(self._entries.values()):
            if not unwanted(entry.request):
                continue
            if entry.state == _WAITING:
                self._waiting_count -= 1
            elif entry.state != _IDLE:
                self.stats.depth[entry.priority] -= 1
                self._held_count -= entry.state == _HELD
                self._oldest.pop(entry, None)
            entry.state = _IDLE
            entry.reasons, entry.links, entry.scheduled = _NO_REASONS, (), ""
            self.forget(entry.request)
            if entry.started is None:
                del self._entries[entry.request]

    def is_processing(self, wanted: Callable[[RequestT], bool]) -> bool:
        """Whether any such request was handed out and is not done."""
        return any(wanted(entry.request) for entry in self._processing)

    def forget(self, request: RequestT) -> None:
        """Clear the failure count of ``request``."""
        self.limiter.forget(request)

    def promote(self, now: float | None = None) -> None:
        """Make every waiting item ready whose time has come, in order of that time."""
        now = self._clock() if now is None else now
        while self._waiting and self._waiting[0][0] <= now:
            due, seq, entry = heappop(self._waiting)
            if entry.state == _WAITING and entry.seq == seq:
                self._waiting_count -= 1
                self._make_ready(entry, due)

    def next_due(self) -> float | None:
        """Return the clock's time at which the next waiting item becomes ready."""
        while self._waiting:
            due, seq, entry = self._waiting[0]
            if entry.state == _WAITING and entry.seq == seq:
                return due
            heappop(self._waiting)
        return None

    @property
    def ready(self) -> int:
        """Items :meth:`pop` can return now, not counting those that became ready since the last call."""
        return len(self._oldest)

    def shutdown(self) -> None:
        """Accept nothing more and drop what waits; ready and held items are still handed out."""
        self.shut_down = True
        for _, _, entry in self._waiting:
            if entry.state == _WAITING:
                entry.state = _IDLE
                if entry.started is None:
                    del self._entries[entry.request]
        self._waiting.clear()
        self._waiting_count = 0

    def running_for(self) -> Iterator[float]:
        """Seconds each item in processing has been there."""
        now = self._clock()
        return (now - started for started in self._processing.values())

    def _delay(self, request: RequestT, after: float | None, rate_limited: bool) -> float:
        if not rate_limited:
            return after if after is not None else 0.0
        self.stats.retries += 1
        delay = self.limiter.when(request)
        return delay if after is None or after <= 0.0 else min(delay, after)

    def _delay_until(self, entry: _Entry, due: float) -> None:
        if entry.state >= _READY:
            return
        if entry.state == _WAITING:
            if entry.due <= due:
                return
        else:
            self._waiting_count += 1
        entry.state = _WAITING
        entry.due = due
        self._seq += 1
        entry.seq = self._seq
        heappush(self._waiting, (due, entry.seq, entry))
        if len(self._waiting) > 2 * self._waiting_count + _COMPACT_SLACK:
            self._waiting = [
                w for w in self._waiting if w[2].state == _WAITING and w[2].seq == w[1]
            ]
            heapify(self._waiting)

    def _make_ready(self, entry: _Entry, ready_at: float) -> None:
        entry.ready_at = ready_at
        self.stats.adds += 1
        depth = self.stats.depth
        depth[entry.priority] = depth.get(entry.priority, 0) + 1
        if entry.started is not None:
            entry.state = _HELD
            self._held_count += 1
        else:
            self._push_ready(entry)

    def _push_ready(self, entry: _Entry) -> None:
        entry.state = _READY
        self._oldest[entry] = None
        self._push(entry)

    def _push(self, entry: _Entry) -> None:
        self._seq += 1
        entry.seq = self._seq
        line = self._ready.get(entry.priority)
        if line is None:
            line = self._ready[entry.priority] = deque()
            insort(self._priorities, -entry.priority)
        line.append((entry.seq, entry))
        self._pairs += 1
        if self._pairs > 2 * len(self._oldest) + _COMPACT_SLACK:
            self._compact()

    def _compact(self) -> None:
        self._pairs = 0
        for priority, line in self._ready.items():
            kept = deque(r for r in line if r[1].state == _READY and r[1].seq == r[0])
            self._ready[priority] = kept
            self._pairs += len(kept)

    def _raise(self, entry: _Entry, priority: int) -> None:
        previous, entry.priority = entry.priority, priority
        if entry.state == _WAITING:
            return
        depth = self.stats.depth
        depth[previous] -= 1
        depth[priority] = depth.get(priority, 0) + 1
        if entry.state == _READY:
            self._push(entry)

    def _choose(self, now: float) -> _Entry | None:
        if not self._oldest:
            return None
        self._since_aged += 1
        if self._since_aged >= self._ageing.share:
            oldest = next(iter(self._oldest))
            if now - oldest.ready_at >= self._ageing.patience:
                self._since_aged = 0
                return oldest
        while True:
            line = self._ready[-self._priorities[0]]
            while line:
                seq, entry = line.popleft()
                self._pairs -= 1
                if entry.state == _READY and entry.seq == seq:
                    return entry
            del self._ready[-self._priorities.pop(0)]
