"""The way of an event into the queue: predicates, handler, priority, reason, trace."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, Generic

from structlog.typing import FilteringBoundLogger

from ctrlruntime.backoff import exponential
from ctrlruntime.cache.entry import KindT
from ctrlruntime.cache.events import CreateEvent, DeleteEvent, Event, UpdateEvent
from ctrlruntime.cache.usercode import EXITS
from ctrlruntime.controller.metrics import ControllerMetrics, NoMetrics
from ctrlruntime.controller.predicates import Predicate, entry_of
from ctrlruntime.queue import PriorityQueue, RequestT
from ctrlruntime.tracing import Tracing

Work = Callable[[], Awaitable[None]]
CONCURRENT: Final = 16
"""How much of it runs at a time in a controller."""
WAITING: Final = 10_000
"""How much of it waits for its next attempt in a controller."""

LOW_PRIORITY = -100
"""Priority of what need not be done at once: the initial list, and replays without a change."""

ATTEMPTS: Final = 12
"""How often asynchronous work of a handler is run before its event is lost."""
RETRY_BASE: Final = 0.5
RETRY_CAP: Final = 60.0
"""Seconds before its second attempt, doubled for each one after, and most seconds between two."""


class EventQueue(Generic[RequestT]):
    """A controller's queue as the handler of one event sees it.

    What is added without a priority of its own gets the event's: low for the initial list and for
    updates without a change, else 0.
    """

    __slots__ = ("_defer", "_link", "_queue", "_reason", "cluster", "default_priority")

    def __init__(
        self,
        queue: PriorityQueue[RequestT],
        *,
        cluster: str = "",
        default_priority: int = 0,
        reason: str = "",
        link: object = None,
        defer: Callable[[str, Work], None] | None = None,
    ) -> None:
        """``defer`` runs asynchronous work; it receives the reason too."""
        self._queue = queue
        self._defer = defer
        self._reason = reason
        self._link = link
        self.cluster = cluster
        self.default_priority = default_priority

    def add(
        self,
        request: RequestT,
        *,
        priority: int | None = None,
        after: float | None = None,
        rate_limited: bool = False,
        reason: str | None = None,
    ) -> None:
        """Queue ``request``; see :meth:`PriorityQueue.add`."""
        self._queue.add(
            request,
            priority=self.default_priority if priority is None else priority,
            after=after,
            rate_limited=rate_limited,
            reason=self._reason if reason is None else reason,
            link=self._link,
        )

    def defer(self, work: Work) -> None:
        """Run ``work`` soon, and not in the informer's turn: it may await, and adds requests later.

        At most 16 run at a time in a controller. One that raises is retried with a growing delay, for about
        six minutes; what it raises then costs this event only.
        """
        if self._defer is None:
            raise RuntimeError("this queue has no controller that could run asynchronous work")
        self._defer(self._reason, work)


Handler = Callable[[Event[KindT], EventQueue[RequestT]], None]
"""Decides which requests an event leads to. Synchronous, and quick: it runs in the informer's turn."""


class EventDispatcher:
    """Takes in the events of all sources of one controller."""

    def __init__(
        self,
        queue: PriorityQueue[Any],
        logger: FilteringBoundLogger,
        tracing: Tracing | None = None,
        metrics: ControllerMetrics | None = None,
    ) -> None:
        self.queue = queue
        self._metrics = metrics if metrics is not None else NoMetrics()
        self._logger = logger
        self._tracing = tracing if tracing is not None and tracing.enabled else None
        self.deferred = DeferredWork()

    def deliver(
        self,
        event: Event,
        handler: Handler[Any, Any],
        predicates: Sequence[Predicate],
        *,
        kind: str,
        cluster: str = "",
    ) -> None:
        """Pass ``event`` to ``handler`` if all ``predicates`` let it through.

        A handler, map function or predicate that raises is logged and counted, and loses this event
        only.
        """
        try:
            for predicate in predicates:
                if not predicate(event):
                    return
            reason = describe(event, kind)
            if self._tracing is None:
                handler(event, self._queue_for(event, cluster, reason, None))
                return
            attributes = {"k8s.kind": kind, "k8s.cluster": cluster, "event": reason}
            with self._tracing.event(f"{kind} event", attributes) as link:
                handler(event, self._queue_for(event, cluster, reason, link))
        except EXITS:
            raise
        except BaseException as error:  # noqa: BLE001 - the user's function, which costs this event only
            self._lose(_described(event, kind), error)

    async def close(self) -> None:
        """Cancel asynchronous work of handlers that has not ended."""
        await self.deferred.close()

    def _lose(self, change: str, error: BaseException) -> None:
        self._metrics.event_failed()
        self._logger.error("Event handler failed; the event is lost", change=change, exc_info=error)

    async def _attempt(self, change: str, work: Work, failures: int = 0) -> None:
        try:
            await work()
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self._retry(change, work, failures, error)
        except Exception as error:  # noqa: BLE001 - the user's function, which costs this event only
            self._retry(change, work, failures, error)

    def _retry(self, change: str, work: Work, failures: int, error: BaseException) -> None:
        """Run ``work`` again after a delay: what awaits fails when a server does, and recovers with it."""
        again = partial(self._attempt, change, work, failures + 1)
        delay = exponential(RETRY_BASE, RETRY_CAP, failures)
        if failures + 1 >= ATTEMPTS or not self.deferred.add_later(delay, again):
            self._lose(change, error)
            return
        self._metrics.event_retried()
        if failures == 0:
            message = "Event handler failed; it is retried"
            self._logger.error(message, change=change, exc_info=error)

    def _queue_for(self, event: Event, cluster: str, reason: str, link: object) -> EventQueue[Any]:
        return EventQueue(
            self.queue,
            cluster=cluster,
            default_priority=LOW_PRIORITY if is_unremarkable(event) else 0,
            reason=reason,
            link=link,
            defer=self._defer,
        )

    def _defer(self, change: str, work: Work) -> None:
        self.deferred.add(partial(self._attempt, change, work))


def is_unremarkable(event: Event) -> bool:
    """Whether nothing new happened: an object of the initial list, or an update without a change."""
    if isinstance(event, CreateEvent):
        return event.initial
    return (
        isinstance(event, UpdateEvent) and event.old.resource_version == event.new.resource_version
    )


def _described(event: Event, kind: str) -> str:
    """Return the reason, also for an event of a channel that names no object at all."""
    try:
        return describe(event, kind)
    except Exception:  # noqa: BLE001 - what is wrong with it is reported already
        return f"{kind} event"


def describe(event: Event, kind: str) -> str:
    """Return the event as a reason for people: ``ConfigMap default/settings updated``."""
    if isinstance(event, CreateEvent):
        verb = "listed" if event.initial else "created"
    elif isinstance(event, UpdateEvent):
        verb = "updated"
    elif isinstance(event, DeleteEvent):
        verb = "deleted"
    else:
        verb = "signalled"
    entry = entry_of(event)
    if entry is not None:
        namespace, name = entry.namespace, entry.name
    else:
        namespace, name = getattr(event, "key", None) or ("", "")
    return f"{kind} {namespace}/{name} {verb}" if namespace else f"{kind} {name} {verb}"


class DeferredWork:
    """Runs what is added, at most ``CONCURRENT`` at a time. The work handles its own exceptions."""

    def __init__(self) -> None:
        self._waiting: deque[Work] = deque()
        self._running: dict[asyncio.Task[None], None] = {}  # in the order they began
        self._later: set[asyncio.TimerHandle] = set()
        self._closed = False

    def add(self, work: Work) -> None:
        """Run ``work`` as soon as there is room for it. Ignored after :meth:`close`."""
        if not self._closed:
            self._waiting.append(work)
            self._fill()

    def add_later(self, delay: float, work: Work) -> bool:
        """Add ``work`` in ``delay`` seconds. False if too much waits already, or after :meth:`close`."""
        if self._closed or len(self._later) >= WAITING:
            return False

        def due() -> None:
            self._later.discard(timer)
            self.add(work)

        timer = asyncio.get_running_loop().call_later(delay, due)
        self._later.add(timer)
        return True

    @property
    def busy(self) -> bool:
        """Whether any of it runs, or waits for room."""
        return bool(self._running or self._waiting)

    def ready_in(self) -> float | None:
        """Return the seconds until the next attempt of what failed; None if nothing did."""
        now = asyncio.get_running_loop().time()
        return min((max(0.0, timer.when() - now) for timer in self._later), default=None)

    async def close(self) -> None:
        """Cancel what runs and drop what waits."""
        self._closed = True
        self._waiting.clear()
        for timer in self._later:
            timer.cancel()
        self._later.clear()
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _fill(self) -> None:
        while self._waiting and len(self._running) < CONCURRENT:
            task = asyncio.create_task(_run(self._waiting.popleft()), name="deferred event handler")
            self._running[task] = None
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.pop(task, None)
        self._fill()


async def _run(work: Work) -> None:
    await work()
