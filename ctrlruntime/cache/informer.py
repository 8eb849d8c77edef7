"""One kind under watch: the store, the handlers of changes, and whether the first list is through."""

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.backoff import Backoff
from ctrlruntime.cache.entry import Document, Entry, EntryDecoder, Key, KindT, identity_of
from ctrlruntime.cache.events import Event, EventHandler, UpdateEvent
from ctrlruntime.cache.listwatch import ListWatch
from ctrlruntime.cache.observe import InformerObserver, InformerStats, NoInformerObserver
from ctrlruntime.cache.own_events import OwnEvents
from ctrlruntime.cache.reflector import KindMissing, Reflector, ReflectorOptions, ServerFeatures
from ctrlruntime.cache.registration import Registration, key_of, wait_for
from ctrlruntime.cache.selection import Selection
from ctrlruntime.cache.store import IndexFn, Store
from ctrlruntime.cache.usercode import EXITS, check_synchronous
from ctrlruntime.cache.versions import number
from ctrlruntime.cache.write_overlay import ListTicket, PendingWrite, WriteOverlay
from ctrlruntime.client.auth import AuthError
from ctrlruntime.client.errors import APIError, NoKindMatch, TransportError
from ctrlruntime.client.reads import list_items
from ctrlruntime.client.transport import list_meta

__all__ = ["Informer", "InformerOptions", "Registration", "Selection", "Transform"]

Transform = Callable[[Entry[KindT]], Entry[KindT]]
"""Changes an entry before store and handlers see it.

Where it raises, or returns no entry, that state of the object is left out, which is logged and counted: the
last state that it could change stays. Nothing that it did not change is ever kept.
"""

_BREATH = 200  # events handed out before other tasks get a turn
_FIRST_RETRY = 0.25
_RECHECKS = (1.0, 4.0, 16.0)
"""Seconds from one check to the next after the CRD of a kind was deleted."""
_MIN_RESYNC = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InformerOptions:
    """What all informers of a cache share. Times in seconds."""

    reflector: ReflectorOptions = field(default_factory=ReflectorOptions)
    missing_retry: float = 10.0
    """How often a kind that the server lacks is looked for again."""
    resync: float | None = 36_000.0
    """Periodic resync: every object is reported again, from the store, as Updated(old is new): this often, +-10 %, at
    least 1 s. None: never."""
    on_error: Callable[[GroupVersionKind, Exception], None] | None = None
    """Called for every failure of a list or watch, and of every object that cannot be kept."""
    failure_threshold: int = 5
    """After how many unexpected errors in a row an informer counts as failed, and with it the manager's
    liveness check. Errors are in a row until one is ``backoff.reset_after`` seconds past."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InformerDeps:
    """What an informer needs of its cache."""

    resolve: Callable[[], Awaitable[RESTMapping]]
    """Use discovery; raises NoKindMatch."""
    list_watch: Callable[["Informer", str | None], ListWatch]
    """For one namespace, or None for all."""
    options: InformerOptions = field(default_factory=InformerOptions)
    observer: InformerObserver = field(default_factory=NoInformerObserver)
    features: ServerFeatures = field(default_factory=ServerFeatures)
    on_readiness: Callable[["Informer"], None] = lambda _informer: None
    """Called when it has synced, or when its kind turns out to be missing."""
    logger: FilteringBoundLogger | None = None
    """By default structlog's own."""


class Informer:
    """The watch on one kind and selection. Made by ``Cache.declare``.

    ``mapping`` is a guess until the server has been asked, for kinds known only by name; ``gvk`` is
    always right.
    """

    def __init__(
        self,
        mapping: RESTMapping,
        selection: Selection,
        surroundings: InformerDeps,
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
        self.store = Store(indexes, on_index_failure=self._index_failed)
        self.last_error: Exception | None = None
        self.missing_since: float | None = None
        """When the server was found to lack the kind (the cache's clock); None while it has it."""
        self._around = surroundings
        self._clock = surroundings.options.reflector.clock
        if transform is not None:
            check_synchronous(transform, f"{mapping.gvk}: the transform")
        self._transform = transform
        reflector = surroundings.options.reflector
        self._backoff = Backoff(reflector.backoff, clock=self._clock, random=reflector.random)
        self._restarts = 0
        self._restarted_at = float("-inf")
        self._restarting = False
        logger = surroundings.logger
        self._log: FilteringBoundLogger = (
            logger if logger is not None else structlog.get_logger("ctrlruntime.cache")
        ).bind(kind=str(mapping.gvk))
        self._registrations: dict[Registration, None] = {}
        self._served_handlers: list[Callable[[bool], None]] = []
        self._unlisted = set(selection.scopes)
        self._refreshing: set[str] = set()
        self._synced = asyncio.Event()
        self.readable = False
        """Whether it was ever synced; it stays so while a widened selection of fields is read."""
        self._discovery = asyncio.Event()
        self._recheck = asyncio.Event()
        self._rechecks: list[float] = []
        self._started_at = self._clock()
        self._last_event_at = self._clock()
        self._lists = 0
        self._decoder = self._new_decoder()
        self._ledger = self._new_ledger()
        self.own_events = OwnEvents(self.store)
        self.unconfirmed = self._ledger.unconfirmed
        """Whether a key is unconfirmed. Looked up here: it is called for every reconcile and every write."""

    @property
    def gvk(self) -> GroupVersionKind:
        return self.mapping.gvk

    # -- state -----------------------------------------------------------------------------

    @property
    def synced(self) -> bool:
        """Whether the first list has gone through store and handlers."""
        return self._synced.is_set()

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Raise TimeoutError naming the kind and the last error."""
        why = f" (last error: {self.last_error})" if self.last_error else ""
        await wait_for(self._synced, timeout, f"{self.gvk}: informer not synced{why}")

    @property
    def restarting(self) -> bool:
        """Whether an unexpected error ended list and watch, and no list was read since."""
        return self._restarting

    @property
    def failed(self) -> bool:
        """Whether ``failure_threshold`` unexpected errors came in a row, the last one not long ago."""
        return self._restarts >= self._around.options.failure_threshold and self._in_a_row()

    def _in_a_row(self) -> bool:
        quiet = self._clock() - self._restarted_at
        return quiet <= self._around.options.reflector.backoff.reset_after

    @property
    def last_event_age(self) -> float:
        """Seconds since anything came from the server: an event, a bookmark or a list."""
        return self._clock() - self._last_event_at

    @property
    def resource_version(self) -> int:
        """Every event up to here was reported, bookmarks included."""
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
        """Report every object to ``handler``, then every change. It must not block.

        Raises TypeError for an async function: it would not be awaited. Slow work goes to a queue.
        """
        if inspect.iscoroutinefunction(handler):  # a message of its own: work goes to a queue
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

    def add_served_handler(self, handler: Callable[[bool], None]) -> None:
        """Call `handler` with False when the server ceases to serve the kind, with True once its objects are listed after that.

        It must not block; the store keeps what was last known meanwhile.
        """
        self._served_handlers.append(handler)

    def _emit_served(self, served: bool) -> None:
        for handler in self._served_handlers:
            try:
                handler(served)
            except Exception as error:  # noqa: BLE001 - a handler must not end the watch
                self._log.error("a handler of a kind's presence failed", exc_info=error)

    def _emit(self, event: Event) -> None:
        for registration in tuple(self._registrations):
            registration.deliver(event)

    def _index_failed(self, index: str, entry: Entry, error: BaseException) -> None:
        self._around.observer.index_failed(self.gvk)
        self._log.error(
            "an index function failed; the object is kept without a value in that index",
            index=index,
            key=entry.key,
            exc_info=error,
        )

    def _handler_failed(self, event: Event, error: BaseException) -> None:
        self._around.observer.handler_failed(self.gvk)
        self._log.error(
            "an event handler failed; the event is lost to it",
            change=type(event).__name__,
            key=key_of(event),
            exc_info=error,
        )

    # -- running ---------------------------------------------------------------------------

    async def run(self) -> None:
        """List and watch until cancelled. An unexpected error starts both again, after a delay."""
        self._started_at = self._clock()
        while True:
            try:
                await _first_to_end(self._resync(), self._follow())
            except asyncio.CancelledError as error:
                if _is_being_cancelled():
                    raise
                unexpected: BaseException = error
            except Exception as error:  # noqa: BLE001 - whatever it is, the informer goes on
                unexpected = error
            await self._around.options.reflector.sleep(self._unexpected(unexpected))

    def _unexpected(self, error: BaseException) -> float:
        """Record an unexpected error. Return the seconds to wait before list and watch start again."""
        self._restarts = self._restarts + 1 if self._in_a_row() else 1
        self._restarting = True
        delay = self._backoff.delay()
        self._restarted_at = self._clock() + delay
        self._around.observer.restarted(self.gvk)
        self._failed(error if isinstance(error, Exception) else RuntimeError(repr(error)))
        self._log.error(
            "an unexpected error ended list and watch; both start again",
            in_a_row=self._restarts,
            delay=delay,
            exc_info=error,
        )
        return delay

    def check_transform(self, transform: Transform | None) -> None:
        """Raise ValueError for a transform other than the informer's own: its users share what it keeps."""
        if transform is not None and transform is not self._transform:
            raise ValueError(
                f"{self.gvk} is declared already, {'with another' if self._transform else 'without a'} "
                "transform, and both declarations would share one informer: give the transform to the "
                "first declaration of this kind and selection, or declare another selection"
            )

    def widen(self, *, metadata_only: bool, track_manager: str | None) -> bool:
        """Add the needs of a further declaration. True if a running informer has to start again."""
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
        """Look for the kind again: a missing one may have appeared."""
        self._discovery.set()

    def check_served(self) -> None:
        """Read the list again, now and a few times in the next half a minute, unless the kind is gone.

        An API server goes on serving a kind for a moment after its CRD was deleted, and may leave a watch
        open that began then.
        """
        self._rechecks = list(_RECHECKS)
        self._recheck.set()

    async def _follow(self) -> None:
        retry = self._around.options.missing_retry
        delay = retry
        while True:
            self._discovery.clear()
            try:
                self.mapping = await self._around.resolve()
                while True:
                    self._recheck.clear()
                    await _first_to_end(self._reflect(), self._until_recheck())
            except (KindMissing, NoKindMatch) as error:
                self._rechecks = []
                self._missing(error)
            except (APIError, TransportError, AuthError) as error:
                self._failed(error)
                self._log.warning("discovery failed", error=str(error))
            delay = _FIRST_RETRY if await self._discovery_within(delay) else min(delay * 2, retry)

    async def _until_recheck(self) -> None:
        delay = self._rechecks.pop(0) if self._rechecks else None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await self._recheck.wait()

    async def _discovery_within(self, seconds: float) -> bool:
        """Whether discovery changed: then the kind is looked for more often for a while."""
        try:
            async with asyncio.timeout(seconds):
                await self._discovery.wait()
        except TimeoutError:
            return False
        return True

    async def _reflect(self) -> None:
        """Raise KindMissing."""
        await _first_to_end(*(self._reflector(scope).run() for scope in self.selection.scopes))

    def _reflector(self, scope: str) -> Reflector:
        return Reflector(
            self._around.list_watch(self, scope or None),
            _ScopeSink(self, scope),
            self._around.options.reflector,
            features=self._around.features,
            name=str(self.gvk),
            logger=self._around.logger,
        )

    def _missing(self, error: Exception) -> None:
        self.last_error = error
        if self.missing_since is None:
            self.missing_since = self._clock()
            self._log.warning("the server does not serve this kind; waiting for it")
            self._around.on_readiness(self)
            self._emit_served(False)

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
                entry = self.store.get_by_key(key)
                if entry is not None:
                    self._emit(UpdateEvent(entry, entry))
                if count % _BREATH == 0:
                    await asyncio.sleep(0)

    # -- what comes from the reflector -----------------------------------------------------

    def decode(self, body: bytes | msgspec.Raw | Document) -> Entry | None:
        """Return a new state of an object as it is to be kept; None if it cannot be."""
        entry = self._decode(body)
        return None if entry is None else self._transformed(entry)

    def held(self, document: Document) -> Entry | None:
        """Return the entry of the store if the document is that very state, as it is of our own writes."""
        identity = identity_of(document)
        if identity is None:
            return None
        kept = self.store.get_by_key((identity.namespace, identity.name))
        same = (
            kept is not None
            and kept.uid == identity.uid
            and kept.resource_version == identity.resource_version != ""
        )
        return kept if same else None

    def decode_listed(self, body: bytes | msgspec.Raw | Document) -> Entry | None:
        """Return an object that exists: where its state cannot be kept, the one that the store has."""
        entry = self._decode(body)
        if entry is None or (transformed := self._transformed(entry)) is not None:
            return transformed if entry is not None else None
        return self._kept(entry)

    def decode_deleted(self, body: bytes | msgspec.Raw | Document) -> Entry | None:
        """Return the last state of a deleted object: where it cannot be kept, what the store has of it."""
        entry = self._decode(body)
        if entry is None or (transformed := self._transformed(entry)) is not None:
            return transformed if entry is not None else None
        last = self._kept(entry)
        if last is None:  # nothing is left to delete but a tombstone: identity is enough
            last = msgspec.structs.replace(entry, fields={}, labels={}, annotations={}, size=0)
        return msgspec.structs.replace(last, resource_version=entry.resource_version)

    def _kept(self, entry: Entry) -> Entry | None:
        kept = self.store.get_by_key(entry.key)
        return kept if kept is not None and kept.uid == entry.uid else None

    def _decode(self, body: bytes | msgspec.Raw | Document) -> Entry | None:
        try:
            if isinstance(body, dict):
                return self._decoder.take(body)
            return self._decoder.decode(body)
        except Exception as error:  # noqa: BLE001 - one bad object must not stop the others
            self._failed(error)
            self._log.error("an object cannot be read and is left out", error=str(error))
            return None

    def _transformed(self, entry: Entry) -> Entry | None:
        if self._transform is None:
            return entry
        key = entry.key
        try:
            transformed = self._transform(entry)
            if isinstance(transformed, Entry):
                return transformed
            raise TypeError(f"the transform returned {type(transformed).__name__}, not an Entry")
        except EXITS:
            raise
        except BaseException as error:  # noqa: BLE001 - user code: it costs this object alone
            self._around.observer.transform_failed(self.gvk)
            self._failed(error if isinstance(error, Exception) else RuntimeError(repr(error)))
            self._log.error(
                "a transform failed; this state of the object is left out", key=key, exc_info=error
            )
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
            initial=first and not self.readable,
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
        self._restarting = False
        self.last_error = None
        was_missing, self.missing_since = self.missing_since is not None, None
        if first:
            self._refreshing.discard(scope)
            self._scope_listed(scope)
        else:
            self._around.observer.relisted(self.gvk)
        if was_missing:
            self._emit_served(True)

    def _scope_listed(self, scope: str) -> None:
        self._unlisted.discard(scope)
        if self._unlisted:
            return
        if not self.readable:
            self._around.observer.synced(self.gvk, self._clock() - self._started_at)
        self.readable = True
        self._synced.set()
        for registration in tuple(self._registrations):
            registration.informer_listed()
        self._around.on_readiness(self)

    def _touched(self) -> None:
        self._last_event_at = self._clock()

    # -- our own requests ------------------------------------------------------------------

    def covers(self, namespace: str) -> bool:
        return self.selection.covers(namespace)

    def begin(self, key: Key) -> PendingWrite:
        """Before a request about ``key``. Pass the ticket to ``end`` in any case."""
        return self._ledger.begin(key)

    def end(self, ticket: PendingWrite) -> None:
        self._ledger.end(ticket)

    def wrote(self, entry: Entry, ticket: PendingWrite | None = None) -> None:
        """Take in an answered write: it is visible from now on. ``ticket``: that of the write, if its key was known before."""
        events = self._ledger.wrote(entry, ticket)
        if events:
            self.own_events.expect(entry)
            self._emit_all(events)

    def deleted(self, ticket: PendingWrite, uid: str | None) -> None:
        """Take in an answered delete: the object is gone from now on, whatever the watch still has to tell."""
        self._emit_all(self._ledger.deleted(ticket, uid))

    def write_failed(self, error: Exception) -> None:
        """Record an unexpected error with the answer to a write, and read the list again."""
        self._failed(error)
        self._log.error(
            "the answer to a write could not be taken over; the list is read again", exc_info=error
        )
        self.check_served()

    def deleting(self, entry: Entry) -> None:
        """One object of the answer to a deletecollection: uncertain until the watch confirms its deletion."""
        self._emit_all(self._ledger.deleting(entry))

    def doubt(self, key: Key) -> None:
        """Mark ``key`` as unconfirmed until it is read from the server."""
        self._ledger.doubt(key)

    def doubt_selected(self, selection: Selection) -> None:
        """Mark every object of ``selection`` as uncertain, and read the list again, which settles all of them."""
        matches = selection.matcher(metadata_only=self.metadata_only)
        for entry in self.store:
            if selection.covers(entry.namespace) and matches(entry) is not False:
                self.doubt(entry.key)
        self.check_served()

    @property
    def unconfirmed_keys(self) -> list[Key]:
        return self._ledger.unconfirmed_keys

    async def refresh(self, key: Key) -> Entry | None:
        """Read one object from the server, into the store. A list of one tells the version even of nothing."""
        ticket = self._ledger.begin(key)
        try:
            entry, version = await self._read_one(key)
            if 0 < number(version) < ticket.bound:  # the server lags behind what is known here
                entry, version = await self._read_one(key, not_older_than=str(ticket.bound))
            self._emit_all(self._ledger.settle(ticket, entry, version))
        finally:
            self._ledger.end(ticket)
        return self.store.get_by_key(key)

    async def _read_one(
        self, key: Key, not_older_than: str | None = None
    ) -> tuple[Entry | None, str]:
        """Return the object, or None, and the version of the list of one."""
        namespace, name = key
        source = self._around.list_watch(self, namespace or None)
        entry: Entry | None = None
        version = ""
        pages = source.pages(limit=0, not_older_than=not_older_than, name=name)
        async with aclosing(pages):
            async for page in pages:
                version = list_meta(page).resource_version
                for item in list_items(page):
                    entry = self.decode_listed(item)
        return entry, version

    def _emit_all(self, events: list[Event]) -> None:
        for event in events:
            self._emit(event)

    def _new_decoder(self) -> EntryDecoder:
        return EntryDecoder(
            self.gvk, metadata_only=self.metadata_only, track_manager=self.track_manager
        )

    def _new_ledger(self) -> WriteOverlay:
        selection = self.selection
        return WriteOverlay(
            self.store,
            clock=self._clock,
            matches=selection.matcher(metadata_only=self.metadata_only),
            namespaces=selection.namespaces or (),
            selective=bool(selection.labels or selection.fields),
        )


def _is_being_cancelled() -> bool:
    """Return whether the current task was asked to end, and not only met a cancellation of something else."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def _first_to_end(*endless: Coroutine[Any, Any, None]) -> None:
    """Run them side by side; when one ends, by an error, the others end too and it is raised.

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
        self.reported = informer.own_events.reported
        self._informer = informer
        self._ledger = informer._ledger
        self._scope = scope

    def decode(self, body: Document) -> Entry | None:
        held = self._informer.held(body)
        return self._informer.decode(body) if held is None else held

    def decode_listed(self, body: msgspec.Raw | Document) -> Entry | None:
        return self._informer.decode_listed(body)

    def decode_deleted(self, body: msgspec.Raw | Document) -> Entry | None:
        return self._informer.decode_deleted(body)

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
