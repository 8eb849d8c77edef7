"""The work queue: what was added is handed out, once at a time, in order, and never lost."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from ctrlruntime.queue.core import _IDLE, _READY, _WAITING, Ageing, QueueCore
from ctrlruntime.queue.limiters import ItemExponential
from tests.prove.explorer import Model, ModelScope, Violated

_PATIENCE = 2
_OLD = _PATIENCE + 1
"""Ages above are one."""
_RETRIES = 2
_WORKERS = 2


class Clock:
    """Whole seconds."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Queue(Model):
    """A queue with two workers. `wanted` is what it owes: priority, and the time from which on, by request."""

    def __init__(self, requests: str, *, retries: bool) -> None:
        self.clock = Clock()
        self.core: QueueCore[str] = QueueCore(
            self.clock,
            limiter=ItemExponential(base=1.0, cap=2.0),
            ageing=Ageing(patience=_PATIENCE, share=2),
        )
        self.requests, self.retries = requests, retries
        self.wanted: dict[str, tuple[int, float]] = {}
        self.worked_on: list[str] = []

    def key(self) -> Hashable:
        """All that decides what comes next; times as ages, and what is above a bound as the bound."""
        core, now = self.core, self.clock.now
        entries = tuple(
            (
                r,
                e.state,
                e.priority if e.state != _IDLE else 0,
                e.started is not None,
                min(now - e.ready_at, _OLD) if e.state >= _READY else 0.0,
                max(0.0, e.due - now) if e.state == _WAITING else 0.0,
            )
            for r, e in sorted(core._entries.items())
        )
        lines = tuple(
            e.request
            for _, line in sorted(core._ready.items())
            for seq, e in line
            if e.state == _READY and e.seq == seq
        )
        waiting = tuple(
            e.request
            for _, seq, e in sorted(core._waiting, key=_place)
            if e.state == _WAITING and e.seq == seq
        )
        retries = tuple(min(core.limiter.retries(r), _RETRIES) for r in self.requests)
        wanted = tuple(
            (r, priority, max(at - now, -_OLD)) for r, (priority, at) in sorted(self.wanted.items())
        )
        oldest = tuple(e.request for e in core._oldest)
        aged = min(core._since_aged, core._ageing.share)
        return entries, lines, waiting, oldest, retries, wanted, aged, tuple(sorted(self.worked_on))

    def acts(self) -> Iterable[tuple[str, tuple[object, ...], bool]]:
        """Add in every way, hand out, end, let time pass."""
        for request in self.requests:
            for priority in (0, 1):
                yield "add", (request, priority, None, False), False
            yield "add", (request, 0, 1.0, False), False
            if self.retries:
                yield "add", (request, 0, None, True), False
                yield "forget", (request,), False
        if len(self.worked_on) < _WORKERS:
            yield "take", (), True
        for request in self.worked_on:
            yield "done", (request,), True
        yield "tick", (), bool(self.wanted)

    def add(self, request: str, priority: int, after: float | None, limited: bool) -> None:
        """Queue a request."""
        now = self.clock.now
        delay = after or 0.0
        if limited:
            delay = min(2.0 ** self.core.limiter.retries(request), 2.0)
        self.core.add(request, priority=priority, after=after, rate_limited=limited)
        known, at = self.wanted.get(request, (priority, now + delay))
        self.wanted[request] = (max(known, priority), min(at, now + delay))
        self._count()

    def forget(self, request: str) -> None:
        """Clear its failures."""
        self.core.forget(request)

    def take(self) -> None:
        """Have a worker take the next one."""
        now = self.clock.now
        free = {
            request: priority
            for request, (priority, at) in self.wanted.items()
            if at <= now and request not in self.worked_on
        }
        item = self.core.pop()
        if item is None:
            if free:
                raise Violated(f"{sorted(free)} are ready, and nothing is handed out")
            return
        if item.request not in free:
            raise Violated(f"{item.request} is handed out, and may not be now")
        if item.priority != free[item.request]:
            raise Violated(f"{item.request} has priority {item.priority}, not {free[item.request]}")
        waited = max(now - self.wanted[request][1] for request in free)
        if item.priority < max(free.values()) and waited < _PATIENCE:
            raise Violated(f"{item.request} overtakes a higher priority")
        del self.wanted[item.request]
        self.worked_on.append(item.request)
        self._count()

    def done(self, request: str) -> None:
        """Have a worker end."""
        self.core.done(request)
        self.worked_on.remove(request)
        self._count()

    def tick(self) -> None:
        """Let a second pass."""
        self.clock.now += 1.0
        self.core.promote()
        self._count()

    def _count(self) -> None:
        core, now = self.core, self.clock.now
        due = sum(at <= now for _, at in self.wanted.values())
        later = len(self.wanted) - due
        counts = (len(core), core.waiting, core.processing, sum(core.stats.depth.values()))
        if counts != (due, later, len(self.worked_on), due):
            raise Violated(f"it counts {counts}, and there are {due} ready, {later} for later")

    def is_calm(self) -> bool:
        """Whether all that was added has been worked on."""
        return not (self.wanted or self.worked_on)


def _place(waiting: tuple[float, int, object]) -> tuple[float, int]:
    return waiting[:2]


def queue_world(*, small: bool = False) -> ModelScope[Queue]:
    """Return the world of a queue of two requests, with retries or without."""
    return ModelScope("queue", Queue("ab", retries=not small))
