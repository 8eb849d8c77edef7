"""Where the events of a controller come from."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ctrlruntime.api.resource import TypedKindRef
from ctrlruntime.cache.entry import Entry, KindT
from ctrlruntime.cache.events import Event, GenericEvent
from ctrlruntime.cache.store import IndexFn
from ctrlruntime.client.errors import INSTALL
from ctrlruntime.cluster.cluster import Cluster
from ctrlruntime.controller.event_dispatch import EventDispatcher, Handler
from ctrlruntime.controller.predicates import Predicate
from ctrlruntime.queue import PriorityQueue, Request

if TYPE_CHECKING:
    from ctrlruntime.cache.cache import Cache
    from ctrlruntime.cache.informer import Informer, Registration, Transform
    from ctrlruntime.client.selectors import FieldSelector, LabelSelector

CHANNEL_BUFFER = 1024


class Source(Protocol):
    """Delivers events to a controller. ``str()`` names it in messages."""

    async def start(self, intake: EventDispatcher) -> None:
        """Begin to deliver and return at once."""
        ...

    async def wait_synced(self) -> None:
        """Return when everything that existed at the start has been delivered."""
        ...

    async def stop(self) -> None:
        """Deliver nothing more. Harmless if never started."""
        ...


class KindSource:
    """All objects of one kind, through the cache.

    The kind is declared to the cache when the source is made. A kind the server does not have is
    waited for, within ``sync_timeout`` seconds; with ``optional`` it holds nothing up and its events
    come whenever it appears. A kind that may not be listed is waited for as long; with ``optional``
    the controller then starts without it, and reading it raises NotSynced.
    """

    def __init__(
        self,
        cache: Cache | Cluster,
        kind: TypedKindRef[KindT],
        handler: Handler[KindT, Any],
        *,
        predicates: Sequence[Predicate[KindT]] = (),
        namespaces: Collection[str] | None = None,
        labels: LabelSelector | None = None,
        fields: FieldSelector | None = None,
        metadata_only: bool = False,
        track_manager: str | None = None,
        indexes: Mapping[str, IndexFn[KindT]] | None = None,
        transform: Transform[KindT] | None = None,
        optional: bool = False,
        sync_timeout: float | None = None,
        cluster: str = "",
        sharded: bool | None = None,
    ) -> None:
        """With a Cluster in place of its cache, ``cluster`` is that one's name."""
        if isinstance(cache, Cluster):
            cluster, cache = cache.name, cache.cache
        self._handle = cache.declare(
            kind,
            namespaces=namespaces,
            labels=labels,
            fields=fields,
            metadata_only=metadata_only,
            track_manager=track_manager or None,
            indexes=indexes or {},
            transform=transform,
            optional=optional,
            sync_timeout=sync_timeout,
            sharded=sharded,
        )
        self._handler = handler
        self._predicates = tuple(predicates)
        self._optional = optional
        self._cluster = cluster
        self._registration: Registration | None = None

    def __str__(self) -> str:
        return f"kind source {self._handle.informer.mapping.gvk}"

    def entry_of(self, request: Request) -> Entry | None:
        """Return the object of a request, of this source's cluster and selection, as the cache has it."""
        return self._handle.informer.store.get(request.name, namespace=request.namespace)

    @property
    def unsynced_reason(self) -> str:
        """Why it has not synced, with what to do about it; empty where no answer came yet."""
        informer = self._handle.informer
        if informer.missing_since is not None:
            return f"the server does not serve this kind: {INSTALL}"
        return "" if informer.last_error is None else f"its last answer: {informer.last_error}"

    async def start(self, intake: EventDispatcher) -> None:
        informer = self._handle.informer
        kind = informer.mapping.gvk.kind

        def deliver(event: Event) -> None:
            intake.deliver(event, self._handler, self._predicates, kind=kind, cluster=self._cluster)

        self._registration = informer.add_handler(deliver)

    async def wait_synced(self) -> None:
        if self._registration is not None and not self._optional:
            await self._registration.wait_synced()

    async def stop(self) -> None:
        if self._registration is not None:
            self._registration.remove()
            self._registration = None
        await self._handle.release()


class InformerSource:
    """An informer someone else declared and keeps."""

    def __init__(
        self,
        informer: Informer,
        handler: Handler[Any, Any],
        *,
        predicates: Sequence[Predicate] = (),
        cluster: str = "",
    ) -> None:
        self._informer = informer
        self._handler = handler
        self._predicates = tuple(predicates)
        self._cluster = cluster
        self._registration: Registration | None = None

    def __str__(self) -> str:
        return f"informer source {self._informer.mapping.gvk}"

    async def start(self, intake: EventDispatcher) -> None:
        kind = self._informer.mapping.gvk.kind

        def deliver(event: Event) -> None:
            intake.deliver(event, self._handler, self._predicates, kind=kind, cluster=self._cluster)

        self._registration = self._informer.add_handler(deliver)

    async def wait_synced(self) -> None:
        if self._registration is not None:
            await self._registration.wait_synced()

    async def stop(self) -> None:
        if self._registration is not None:
            self._registration.remove()
            self._registration = None


class Channel:
    """Generic events from outside the API server, for any number of subscribers."""

    def __init__(self) -> None:
        self._subscribers: list[asyncio.Queue[GenericEvent | None]] = []
        self._closed = False

    async def send(self, event: GenericEvent) -> None:
        """Pass ``event`` to every subscriber, waiting where a buffer is full.

        Raises RuntimeError once the channel is closed, TypeError for anything but a GenericEvent.
        """
        if not isinstance(event, GenericEvent):
            raise TypeError(
                f"a channel takes a GenericEvent, as GenericEvent(key=(namespace, name)), not {type(event).__name__}"
            )
        if self._closed:
            raise RuntimeError("the channel is closed")
        for subscriber in tuple(self._subscribers):
            await subscriber.put(event)

    async def close(self) -> None:
        """End the channel: subscribers still get what was sent before."""
        if not self._closed:
            self._closed = True
            for subscriber in tuple(self._subscribers):
                await subscriber.put(None)

    def subscribe(self, buffer: int = CHANNEL_BUFFER) -> asyncio.Queue[GenericEvent | None]:
        """Return a queue that gets each event sent from now on, and ``None`` at the end."""
        subscriber: asyncio.Queue[GenericEvent | None] = asyncio.Queue(buffer)
        self._subscribers.append(subscriber)
        return subscriber

    def unsubscribe(self, subscriber: asyncio.Queue[GenericEvent | None]) -> None:
        with contextlib.suppress(ValueError):
            self._subscribers.remove(subscriber)
        while not subscriber.empty():  # releases a sender that waits for room
            subscriber.get_nowait()


class ChannelSource:
    """The events of a :class:`Channel`. ``buffer`` events are kept while it does not deliver."""

    def __init__(
        self,
        channel: Channel,
        handler: Handler[Any, Any],
        *,
        predicates: Sequence[Predicate] = (),
        buffer: int = CHANNEL_BUFFER,
        name: str = "channel",
        cluster: str = "",
    ) -> None:
        self._channel = channel
        self._handler = handler
        self._predicates = tuple(predicates)
        self._name = name
        self._cluster = cluster
        self._events = channel.subscribe(buffer)
        self._task: asyncio.Task[None] | None = None

    def __str__(self) -> str:
        return f"channel source {self._name}"

    async def start(self, intake: EventDispatcher) -> None:
        self._task = asyncio.create_task(self._deliver(intake), name=str(self))

    async def wait_synced(self) -> None:
        """There is no initial list."""

    async def stop(self) -> None:
        self._channel.unsubscribe(self._events)
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _deliver(self, intake: EventDispatcher) -> None:
        while (event := await self._events.get()) is not None:
            intake.deliver(
                event, self._handler, self._predicates, kind=self._name, cluster=self._cluster
            )


class FuncSource:
    """A function that arranges for additions to the queue and returns."""

    def __init__(
        self, start: Callable[[PriorityQueue[Any]], Awaitable[None]], name: str | None = None
    ) -> None:
        self._start = start
        self._name = name if name is not None else getattr(start, "__name__", "function")

    def __str__(self) -> str:
        return f"func source {self._name}"

    async def start(self, intake: EventDispatcher) -> None:
        await self._start(intake.queue)

    async def wait_synced(self) -> None:
        """Do nothing: the function has returned by then."""

    async def stop(self) -> None:
        """Do nothing: the function looks after itself."""
