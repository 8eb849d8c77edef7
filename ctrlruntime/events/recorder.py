"""Sends events to the API server without ever holding up who records them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Literal, Protocol

import structlog
from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.api.printable import printable
from ctrlruntime.api.resource import Resource
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import AlreadyExists, APIError, NotFound
from ctrlruntime.client.patches import PatchType
from ctrlruntime.clock import draw_between, utc_now
from ctrlruntime.events.correlator import Correlator, EventOptions, Occurrence, Series
from ctrlruntime.queue import PriorityQueue, QueueShutDown, Request
from ctrlruntime.side_by_side import as_failure

EVENT = GroupVersionKind("events.k8s.io", "v1", "Event")
SENDERS = 4
INSTANCE_LIMIT = 128
WORD_LIMIT = 128
"""Bytes of a reason or an action."""

EventType = Literal["Normal", "Warning"]
DropReason = Literal["queue_full", "spam", "refused", "gave_up", "stopped"]
Regarding = Resource[Any, Any] | Entry | Mapping[str, Any]
"""What an event is about: an object in any form, or an ObjectReference."""


class EventMetrics(Protocol):
    """What an EventRecorder counts."""

    def dropped(self, reason: DropReason) -> None: ...


class EventRecorder:
    """Records events of ``events.k8s.io/v1``.

    Calls return at once; see :class:`Correlator` for what is merged, and ``EventOptions`` for the limits.

    Failed requests are tried again up to 12 times, answers of 400 to 499 are not, but for 429.
    """

    def __init__(
        self,
        client: Client,
        controller: str,
        *,
        instance: str | None = None,
        options: EventOptions | None = None,
        metrics: EventMetrics | None = None,
        logger: FilteringBoundLogger | None = None,
        clock: Callable[[], float] | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        instance = instance if instance is not None else f"{controller}-{socket.gethostname()}"
        self.options = options if options is not None else EventOptions()
        self.correlator = Correlator(
            controller,
            instance[:INSTANCE_LIMIT],
            clock if clock is not None else _loop_time,
            now,
            self.options,
        )
        self._client = client
        self._metrics = metrics
        self._logger: FilteringBoundLogger = (
            logger if logger is not None else structlog.get_logger()
        )
        self._queue = PriorityQueue()
        self._pending: dict[Request, Series] = {}
        self._tries: dict[Request, int] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopped = False
        self._subscribers: list[Callable[[Occurrence], None]] = []

    def event(
        self,
        regarding: Regarding,
        type_: EventType,
        reason: str,
        action: str,
        note: str,
        related: Regarding | None = None,
    ) -> None:
        """Record that ``action`` on ``regarding`` led to ``reason``; ``note`` is for people.

        ``reason`` and ``action`` are short words in CamelCase: what is longer than 128 bytes is cut, and an empty one
        is ``Unknown``, since the server refuses both. Never raises for what the server
        may answer, and never waits; must be called on the event loop.
        """
        if self._stopped:
            self._drop("stopped")
            return
        occurrence = Occurrence(
            regarding=reference(regarding),
            type=type_ if type_ in ("Normal", "Warning") else "Warning",
            reason=_word(reason),
            action=_word(action),
            note=printable(_encodable(note)),
            related=None if related is None else reference(related),
        )
        for each in self._subscribers:
            each(occurrence)
        spam = self.correlator.spam
        series = self.correlator.observe(occurrence)
        if self.correlator.spam > spam:
            self._drop("spam")
        if series is not None:
            self._enqueue(series)

    def subscribe(self, callback: Callable[[Occurrence], None]) -> Callable[[], None]:
        """Call a function with each event, before it is merged with others or left out; return what ends that.

        It is called in :meth:`event`, so it must be quick and must not raise.
        """
        self._subscribers.append(callback)
        return lambda: self._subscribers.remove(callback)

    def ready_in(self) -> float | None:
        """Return the seconds until the next retry; None if there is none."""
        return self._queue.ready_in()

    async def flush(self, timeout: float | None = None) -> bool:
        """Wait until nothing is left to send; False if that took longer than ``timeout``."""
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def stop(self, timeout: float = 5.0) -> None:
        """Send what is left, count of series included, for at most ``timeout`` seconds."""
        if self._stopped:
            return
        for series in self.correlator.unwritten():
            self._enqueue(series)
        self._stopped = True
        for request in self._pending:
            self._queue.add(request)  # those waiting to be tried again get a last chance
        await self.flush(timeout)
        for _ in self._pending:
            self._drop("stopped")
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _enqueue(self, series: Series) -> None:
        request = Request(series.name, namespace=series.namespace)
        if request not in self._pending and len(self._pending) >= self.options.queue_size:
            self._drop("queue_full")
            return
        self._pending[request] = series
        self._idle.clear()
        self._queue.add(request)
        if not self._tasks:
            self._tasks = [
                asyncio.create_task(self._send(), name="event sender") for _ in range(SENDERS)
            ]
            self._tasks.append(asyncio.create_task(self._tick(), name="event series"))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self.options.finish_after / 6)
            for series in self.correlator.due():
                self._enqueue(series)

    async def _send(self) -> None:
        while True:
            try:
                item = await self._queue.get()
            except QueueShutDown:
                return
            try:
                await self._write(item.request)
            finally:
                self._queue.done(item.request)

    async def _write(self, request: Request) -> None:
        series = self._pending.get(request)
        if series is None:
            return
        count = series.count
        try:
            await self._create_or_patch(series)
        except APIError as error:
            if 400 <= error.code < 500 and error.code != 429:
                self._give_up(request, "refused", error)
                return
            self._retry(request, error)
        except BaseException as error:  # noqa: BLE001 - an event is never worth a crash
            self._retry(request, as_failure(error))
        else:
            self.correlator.wrote(series, count)
            if count == 1 < series.count:
                self._queue.add(request)  # the series began while the event was being created
            else:
                self._forget(request)

    async def _create_or_patch(self, series: Series) -> None:
        if series.created:
            try:
                await self._client.patch(
                    EVENT,
                    series.name,
                    series.for_patch(),
                    namespace=series.namespace,
                    type=PatchType.MERGE,
                )
            except NotFound:  # the server forgets events after an hour
                await self._client.create(series.for_create())
            return
        try:
            await self._client.create(series.for_create())
        except AlreadyExists:  # an earlier try got through, only its answer was lost
            if series.count > 1:
                await self._client.patch(
                    EVENT,
                    series.name,
                    series.for_patch(),
                    namespace=series.namespace,
                    type=PatchType.MERGE,
                )

    def _retry(self, request: Request, error: Exception) -> None:
        tries = self._tries[request] = self._tries.get(request, 0) + 1
        if tries >= self.options.tries:
            self._give_up(request, "gave_up", error)
            return
        delay = self.options.retry_delay * draw_between(1.0, 1.25)
        self._queue.add(request, after=delay)

    def _give_up(self, request: Request, reason: DropReason, error: Exception) -> None:
        self._forget(request)
        self._drop(reason)
        self._logger.warning("Event was not sent", event_name=str(request), error=str(error))

    def _forget(self, request: Request) -> None:
        self._pending.pop(request, None)
        self._tries.pop(request, None)
        if not self._pending:
            self._idle.set()

    def _drop(self, reason: DropReason) -> None:
        if self._metrics is not None:
            self._metrics.dropped(reason)


def reference(obj: Regarding) -> dict[str, str]:
    """Return the ObjectReference of an object. Raises ValueError if it does not say what it is."""
    if isinstance(obj, Entry):
        found = {
            "apiVersion": obj.api_version,
            "kind": obj.kind,
            "namespace": obj.namespace,
            "name": obj.name,
            "uid": obj.uid,
            "resourceVersion": obj.resource_version,
        }
    elif isinstance(obj, Resource):
        found = {
            "apiVersion": obj.api_version,
            "kind": obj.kind,
            "namespace": obj.metadata.namespace or "",
            "name": obj.metadata.name or "",
            "uid": obj.metadata.uid or "",
            "resourceVersion": obj.metadata.resource_version or "",
        }
    else:
        metadata: Mapping[str, Any] = obj.get("metadata") or obj
        found = {"apiVersion": obj.get("apiVersion", ""), "kind": obj.get("kind", "")}
        for name in ("namespace", "name", "uid", "resourceVersion", "fieldPath"):
            found[name] = metadata.get(name) or ""
    if not found["kind"] or not found["name"]:
        raise ValueError("an event needs an object with apiVersion, kind and name")
    return {name: value for name, value in found.items() if value}


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


def _word(text: str) -> str:
    """Return a reason or an action as the server takes it."""
    return printable(_encodable(text)).encode()[:WORD_LIMIT].decode(errors="ignore") or "Unknown"


def _encodable(text: str) -> str:
    """Return the text without halves of characters, which no request can carry."""
    return text if text.isascii() else text.encode(errors="ignore").decode()
