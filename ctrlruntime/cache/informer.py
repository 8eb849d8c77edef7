"""One kind under watch: the store, who is told of changes, and whether the first list is through."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import msgspec
import structlog

from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.cache.entry import Document, Entry, EntryDecoder, Key
from ctrlruntime.cache.events import Event, EventHandler, Updated
from ctrlruntime.cache.listwatch import ListWatch
from ctrlruntime.cache.observe import InformerObserver, InformerStats, NoInformerObserver
from ctrlruntime.cache.reflector import KindMissing, Reflector, ReflectorOptions, ServerFeatures
from ctrlruntime.cache.registration import Registration, key_of, wait_for
from ctrlruntime.cache.ryow import Ledger, ListTicket, Ticket
from ctrlruntime.cache.selection import Selection
from ctrlruntime.cache.store import IndexFn, Store
from ctrlruntime.cache.versions import number
from ctrlruntime.client.auth import AuthError
from ctrlruntime.client.errors import APIError, NoKindMatch, TransportError
from ctrlruntime.client.reads import list_items
from ctrlruntime.client.transport import list_meta

__all__ = ["Informer", "InformerOptions", "Registration", "Selection", "Transform"]

Transform = Callable[[Entry], Entry]
"""Changes an entry before store and handlers see it; one that raises drops the object, reported."""

_BREATH = 200  # events handed out before other tasks get a turn
_FIRST_RETRY = 0.25
_MIN_RESYNC = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InformerOptions:
    """What all informers of a cache share. Times in seconds."""

    reflector: ReflectorOptions = field(default_factory=ReflectorOptions)
    missing_retry: float = 10.0
    """How often a kind that the server lacks is looked for again."""
    resync: float | None = 36_000.0
    """Every object is told of again, from the store, as Updated(old is new): this often, +-10 %, at
    least 1 s. None: never."""
    on_error: Callable[[GroupVersionKind, Exception], None] | None = None
    """Told of every failure of a list or watch, and of every object that cannot be kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What an informer needs of its cache."""

    resolve: Callable[[], Awaitable[RESTMapping]]
    """Asks discovery; raises NoKindMatch."""
    list_watch: Callable[["Informer", str | None], ListWatch]
    """For one namespace, or None for all."""
    options: InformerOptions = field(default_factory=InformerOptions)
    observer: InformerObserver = field(default_factory=NoInformerObserver)
    features: ServerFeatures = field(default_factory=ServerFeatures)
    on_readiness: Callable[["Informer"], None] = lambda _informer: None
    """Called when it has synced, or when its kind turns out to be missing."""


class Informer:
    """The watch on one kind and selection. Made by ``Cache.declare``.

    ``mapping`` is a guess until the server has been asked, for kinds known only by name; ``gvk`` is
    always right.
    """

    def __init__(
        self,
        mapping: RESTMapping,
        selection: Selection,
        surroundings: Surroundings,
        *,
        metadata_only: bool = False,
        track_manager: str | None = None,
        indexes: Mapping[str, IndexFn] | None = None,
        transform: Transform | None = None,
    ) -> None:
        self.mapping = mapping
        self.selection = selection
        self.metadata_only = metadata_only
        self.track_manager = track_manager
        self.store = Store(indexes)
        self.last_error: Exception | None = None
        self.missing_since: float | None = None
        """When the server was found to lack the kind (the cache's clock); None while it has it."""
        self._around = surroundings
        self._clock = surroundings.options.reflector.clock
        self._transform = transform
        self._log = structlog.get_logger("ctrlruntime.cache").bind(kind=str(mapping.gvk))
        self._registrations: dict[Registration, None] = {}
        self._unlisted = set(selection.scopes)
        self._refreshing: set[str] = set()
        self._synced = asyncio.Event()
        self._readable = False
        self._discovery = asyncio.Event()
        self._started_at = self._clock()
        self._last_event_at = self._clock()
        self._lists = 0
        self._decoder = self._new_decoder()
        self._ledger = self._new_ledger()

    @property
    def gvk(self) -> GroupVersionKind:
        return self.mapping.gvk

    # -- state -----------------------------------------------------------------------------

    @property
    def synced(self) -> bool:
        """Whether the first list has gone through store and handlers."""
        return self._synced.is_set()

    @property
    def readable(self) -> bool:
        """Whether it was ever synced; it stays so while a widened selection of fields is read."""
        return self._readable

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Raises TimeoutError naming the kind and the last error."""
        why = f" (last error: {self.last_error})" if self.last_error else ""
        await wait_for(self._synced, timeout, f"{self.gvk}: informer not synced{why}")

    @property
    def last_event_age(self) -> float:
        """Seconds since anything came from the server: an event, a bookmark or a list."""
        return self._clock() - self._last_event_at

    @property
    def resource_version(self) -> int:
        """Everything up to here has been told, bookmarks included."""
        return min(self._ledger.progress(scope) for scope in self.selection.scopes)

    def stats(self) -> InformerStats:
        return InformerStats(
            self.gvk,
            len(self.store),
            self.store.bytes,
            self.last_event_age,
            self.synced,
            self._lists,
        )

    # -- handlers --------------------------------------------------------------------------

    def add_handler(self, handler: EventHandler) -> Registration:
        """From now on ``handler`` is told of every object, then of every change. It must not block.

        Raises TypeError for an async function: nobody would await it. Slow work goes to a queue.
        """
        if inspect.iscoroutinefunction(handler):
            raise TypeError(f"{self.gvk}: a handler is a plain function; put work into a queue")
        registration = Registration(
            handler,
            self.store,
            on_failure=self._handler_failed,
            on_remove=lambda gone: self._registrations.pop(gone, None),
            describe=str(self.gvk),
        )
        self._registrations[registration] = None
        registration.begin(listed=self.synced)
        return registration

    def _emit(self, event: Event) -> None:
        for registration in tuple(self._registrations):
            registration.deliver(event)

    def _handler_failed(self, event: Event, error: Exception) -> None:
        self._around.observer.handler_failed(self.gvk)
        self._log.error(
            "an event handler failed; the event is lost to it",
            change=type(event).__name__,
            key=key_of(event),
            exc_info=error,
        )

    # -- running ---------------------------------------------------------------------------

    async def run(self) -> None:
        """Until cancelled."""
        self._started_at = self._clock()
        await _first_to_end(self._resync(), self._follow())

    def widen(self, *, metadata_only: bool, track_manager: str | None) -> bool:
        """Takes in what a further declaration asks for. True if a running informer has to start again."""
        full = self.metadata_only and not metadata_only
        track = track_manager is not None and track_manager != self.track_manager
        if track and self.track_manager is not None:
            raise ValueError(
                f"{self.gvk} is already declared with track_manager={self.track_manager!r}; "
                f"{track_manager!r} cannot be tracked as well"
            )
        if not full and not track:
            return False
        self.metadata_only = self.metadata_only and metadata_only
        self.track_manager = track_manager or self.track_manager
        self._decoder = self._new_decoder()
        self._unlisted = set(self.selection.scopes)
        self._refreshing = set(self.selection.scopes)
        self._synced.clear()
        return True

    def discovery_changed(self) -> None:
        """A missing kind may have appeared."""
        self._discovery.set()

    async def _follow(self) -> None:
        retry = self._around.options.missing_retry
        delay = retry
        while True:
            self._discovery.clear()
            try:
                self.mapping = await self._around.resolve()
                await self._reflect()
            except (KindMissing, NoKindMatch) as error:
                self._missing(error)
            except (APIError, TransportError, AuthError) as error:
                self._failed(error)
                self._log.warning("discovery failed", error=str(error))
            delay = _FIRST_RETRY if await self._discovery_within(delay) else min(delay * 2, retry)

    async def _discovery_within(self, seconds: float) -> bool:
        """Whether discovery changed: then the kind is looked for more often for a while."""
        try:
            async with asyncio.timeout(seconds):
                await self._discovery.wait()
        except TimeoutError:
            return False
        return True

    async def _reflect(self) -> None:
        """Raises KindMissing."""
        await _first_to_end(*(self._reflector(scope).run() for scope in self.selection.scopes))

    def _reflector(self, scope: str) -> Reflector:
        return Reflector(
            self._around.list_watch(self, scope or None),
            _ScopeSink(self, scope),
            self._around.options.reflector,
            features=self._around.features,
            name=str(self.gvk),
        )

    def _missing(self, error: Exception) -> None:
        self.last_error = error
        if self.missing_since is None:
            self.missing_since = self._clock()
            self._log.warning("the server does not serve this kind; waiting for it")
            self._around.on_readiness(self)

    def _failed(self, error: Exception) -> None:
        self.last_error = error
        if self._around.options.on_error is None:
            return
        try:
            self._around.options.on_error(self.gvk, error)
        except Exception as failure:  # noqa: BLE001 - whoever listens must not end the watch
            self._log.error("the error handler failed", exc_info=failure)

    async def _resync(self) -> None:
        period = self._around.options.resync
        if period is None:
            await asyncio.Event().wait()
            return
        random = self._around.options.reflector.random
        while True:
            await asyncio.sleep(max(period, _MIN_RESYNC) * (0.9 + 0.2 * random()))
            for count, key in enumerate(self.store.keys(), 1):
                entry = self.store.get(*key)
                if entry is not None:
                    self._emit(Updated(entry, entry))
                if count % _BREATH == 0:
                    await asyncio.sleep(0)

    # -- what comes from the reflector -----------------------------------------------------

    def decode(self, body: bytes | msgspec.Raw | Document) -> Entry | None:
        try:
            if isinstance(body, dict):
                entry = self._decoder.take(body)
            else:
                entry = self._decoder.decode(body)
            return entry if self._transform is None else self._transform(entry)
        except Exception as error:  # noqa: BLE001 - one bad object must not stop the others
            self._failed(error)
            self._log.error("an object cannot be kept and is left out", error=str(error))
            return None

    async def _replace(
        self,
        scope: str,
        ticket: ListTicket,
        entries: Iterable[Entry],
        version: str,
        *,
        consistent: bool,
        trusted: bool,
    ) -> None:
        first = scope in self._unlisted
        changes = self._ledger.replace(
            ticket,
            entries,
            version,
            initial=first and not self._readable,
            consistent=consistent,
            trusted=trusted,
            refreshing=scope in self._refreshing,
        )
        for count, event in enumerate(changes, 1):
            self._emit(event)
            if count % _BREATH == 0:
                await asyncio.sleep(0)
        self._touched()
        self._lists += 1
        self.last_error = None
        self.missing_since = None
        if first:
            self._refreshing.discard(scope)
            self._scope_listed(scope)
        else:
            self._around.observer.relisted(self.gvk)

    def _scope_listed(self, scope: str) -> None:
        self._unlisted.discard(scope)
        if self._unlisted:
            return
        if not self._readable:
            self._around.observer.synced(self.gvk, self._clock() - self._started_at)
        self._readable = True
        self._synced.set()
        for registration in tuple(self._registrations):
            registration.informer_listed()
        self._around.on_readiness(self)

    def _touched(self) -> None:
        self._last_event_at = self._clock()

    # -- our own requests ------------------------------------------------------------------

    def covers(self, namespace: str) -> bool:
        return self.selection.covers(namespace)

    def begin(self, key: Key) -> Ticket:
        """Before a request about ``key``. Pass the ticket to ``end`` in any case."""
        return self._ledger.begin(key)

    def end(self, ticket: Ticket) -> None:
        self._ledger.end(ticket)

    def wrote(self, entry: Entry) -> None:
        """An answered write: visible from now on."""
        self._emit_all(self._ledger.wrote(entry))

    def deleted(self, ticket: Ticket, uid: str | None) -> None:
        """An answered delete: gone from now on, whatever the watch still has to tell."""
        self._emit_all(self._ledger.deleted(ticket, uid))

    def doubt(self, key: Key) -> None:
        """What ``key`` looks like is not known until it is read from the server."""
        self._ledger.doubt(key)

    def uncertain(self, key: Key) -> bool:
        return self._ledger.uncertain(key)

    @property
    def uncertain_keys(self) -> list[Key]:
        return self._ledger.uncertain_keys

    async def refresh(self, key: Key) -> Entry | None:
        """Reads one object from the server, into the store. A list of one tells the version even of nothing."""
        ticket = self._ledger.begin(key)
        try:
            entry, version = await self._read_one(key)
            if 0 < number(version) < ticket.bound:  # the server lags behind what is known here
                entry, version = await self._read_one(key, not_older_than=str(ticket.bound))
            self._emit_all(self._ledger.settle(ticket, entry, version))
        finally:
            self._ledger.end(ticket)
        return self.store.get(*key)

    async def _read_one(
        self, key: Key, not_older_than: str | None = None
    ) -> tuple[Entry | None, str]:
        """The object, or None, and the version of the list of one."""
        namespace, name = key
        source = self._around.list_watch(self, namespace or None)
        entry: Entry | None = None
        version = ""
        pages = source.pages(limit=0, not_older_than=not_older_than, name=name)
        async with aclosing(pages):
            async for page in pages:
                version = list_meta(page).resource_version
                for item in list_items(page):
                    entry = self.decode(item)
        return entry, version

    def _emit_all(self, events: list[Event]) -> None:
        for event in events:
            self._emit(event)

    def _new_decoder(self) -> EntryDecoder:
        return EntryDecoder(
            self.gvk, metadata_only=self.metadata_only, track_manager=self.track_manager
        )

    def _new_ledger(self) -> Ledger:
        selection = self.selection
        return Ledger(
            self.store,
            clock=self._clock,
            matches=selection.matcher(metadata_only=self.metadata_only),
            namespaces=selection.namespaces or (),
            selective=bool(selection.labels or selection.fields),
        )


async def _first_to_end(*endless: Coroutine[Any, Any, None]) -> None:
    """Runs them side by side; when one ends, by an error, the others end too and it is raised.

    A TaskGroup would leave its task marked as cancelled when the error is caught (CPython before
    3.13), and later time limits inside it would then not work.
    """
    tasks = [asyncio.ensure_future(each) for each in endless]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class _ScopeSink:
    """One reflector's way into its informer."""

    def __init__(self, informer: Informer, scope: str) -> None:
        self._informer = informer
        self._ledger = informer._ledger
        self._scope = scope

    def decode(self, body: msgspec.Raw | Document) -> Entry | None:
        return self._informer.decode(body)

    def begin_list(self) -> ListTicket:
        return self._ledger.begin_list(self._scope)

    async def replace(
        self,
        ticket: ListTicket,
        entries: list[Entry],
        resource_version: str,
        *,
        consistent: bool,
        trusted: bool,
    ) -> None:
        await self._informer._replace(
            self._scope,
            ticket,
            entries,
            resource_version,
            consistent=consistent,
            trusted=trusted,
        )

    def observe(self, entry: Entry, *, deleted: bool) -> None:
        self._informer._touched()
        event = self._ledger.observe(self._scope, entry, deleted=deleted)
        if event is not None:
            self._informer._emit(event)

    def bookmark(self, resource_version: str) -> None:
        self._informer._touched()
        self._ledger.bookmark(self._scope, resource_version)

    def watch_restarted(self) -> None:
        self._informer._around.observer.watch_restarted(self._informer.gvk)

    def failed(self, error: Exception) -> None:
        self._informer._failed(error)
