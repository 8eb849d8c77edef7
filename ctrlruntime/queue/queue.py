"""The asyncio front of the work queue: waiting getters, one timer, shutdown."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

from ctrlruntime.queue.core import Ageing, Item, Observer, QueueCore
from ctrlruntime.queue.limiters import Limiter
from ctrlruntime.queue.request import RequestT

RequestT_contra = TypeVar("RequestT_contra", bound=Hashable, contravariant=True)


class QueueShutDown(Exception):
    """The queue was shut down and has nothing left to hand out."""


class Gate(Protocol[RequestT_contra]):
    """Which requests a queue takes in."""

    def admits(self, request: RequestT_contra, priority: int, reason: str) -> bool:
        """Return whether it is queued now; one that is not may be kept until then, or belongs to another process."""


class PriorityQueue(Generic[RequestT]):
    """A work queue for one event loop. See :mod:`ctrlruntime.queue.core` for its order.

    ``clock`` must run at the pace of the loop's own clock, which is the default.
    """

    def __init__(
        self,
        *,
        limiter: Limiter | None = None,
        ageing: Ageing | None = None,
        observer: Observer | None = None,
        clock: Callable[[], float] | None = None,
        gate: Gate[RequestT] | None = None,
    ) -> None:
        self.gate = gate
        self._clock = clock if clock is not None else _LoopClock()
        self.core: QueueCore[RequestT] = QueueCore(
            self._clock, limiter=limiter, ageing=ageing, observer=observer
        )
        self._getters: deque[asyncio.Future[None]] = deque()
        self._drainers: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._watchers: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        return len(self.core)

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
        """Queue ``request``, if the gate lets it through; see :meth:`QueueCore.add`. Never blocks."""
        if self.gate is not None and not self.gate.admits(request, priority, reason):
            return
        self.core.add(
            request,
            priority=priority,
            after=after,
            rate_limited=rate_limited,
            reason=reason,
            link=link,
            scheduled=scheduled,
        )
        self._wake()

    async def get(self) -> Item[RequestT]:
        """Wait for the next item. Raises :class:`QueueShutDown` when there will be none."""
        while True:
            item = self.core.pop()
            if item is not None:
                if self.core.shut_down:
                    self._wake()  # it may have been the last one the other getters wait for
                return item
            if self.core.shut_down and not len(self.core):
                raise QueueShutDown
            self._arm_timer()
            getter = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled():
                    self._wake()  # this getter took a wake-up that another one needs
                raise

    def done(self, request: RequestT) -> None:
        """End the processing of ``request``. Required after every :meth:`get`."""
        self.core.done(request)
        self._wake()
        for watcher in self._watchers:
            if not watcher.done():
                watcher.set_result(None)
        self._watchers.clear()
        if self._drainers and not self.core.processing and not len(self.core):
            self._release_drainers()

    async def drain(self, concerned: Callable[[RequestT], bool]) -> None:
        """Drop such requests, and wait until none of them is being processed any more."""
        self.core.discard(concerned)
        while self.core.is_processing(concerned):
            watcher = asyncio.get_running_loop().create_future()
            self._watchers.append(watcher)
            await watcher

    def forget(self, request: RequestT) -> None:
        """Clear the failure count of ``request``."""
        self.core.forget(request)

    def ready_in(self) -> float | None:
        """Return the seconds until the next delayed item is ready; None if none is delayed."""
        due = self.core.next_due()
        return None if due is None else max(0.0, due - self._clock())

    def retries(self, request: RequestT) -> int:
        """Failures of ``request`` since it was last forgotten."""
        return self.core.limiter.retries(request)

    def shutdown(self, drain: bool = False) -> asyncio.Future[None]:
        """Refuse new items and drop delayed ones; those already ready are still handed out.

        The future returned is done at once, or with ``drain`` when everything handed out and ready
        has been processed. A later call without ``drain`` releases a drain in progress.
        """
        self.core.shutdown()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        finished = asyncio.get_running_loop().create_future()
        if drain and (self.core.processing or len(self.core)):
            self._drainers.append(finished)
        else:
            finished.set_result(None)
        if not drain:
            self._release_drainers()
        self._wake()
        return finished

    def _release_drainers(self) -> None:
        for drainer in self._drainers:
            if not drainer.done():
                drainer.set_result(None)
        self._drainers.clear()

    def _wake(self) -> None:
        """Wake one getter per ready item, and all when the queue has ended."""
        if not self._getters:
            return
        if self.core.shut_down and not len(self.core):
            count = len(self._getters)
        else:
            count = self.core.ready
        while count > 0 and self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                count -= 1
        if self._getters:
            self._arm_timer()

    def _arm_timer(self) -> None:
        due = self.core.next_due()
        if due is None or (self._timer is not None and self._timer_due <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        delay = max(0.0, due - self._clock())
        self._timer_due = due
        self._timer = loop.call_at(loop.time() + delay, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self.core.promote()
        self._wake()


class _LoopClock:
    """The time of the loop in which it is first read. To find out which loop runs is a system call before Python 3.12."""

    __slots__ = ("_time",)

    def __init__(self) -> None:
        self._time: Callable[[], float] | None = None

    def __call__(self) -> float:
        now = self._time
        if now is None:
            now = self._time = asyncio.get_running_loop().time
        return now()
