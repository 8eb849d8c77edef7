"""One kind under watch: the store, the handlers of changes, and whether the first list is through."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial

import structlog
from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.backoff import Restarts
from ctrlruntime.cache.catch_up import BOUND, CatchUp
from ctrlruntime.cache.entry import Entry, EntryDecoder, Key
from ctrlruntime.cache.event_handlers import BREATH, EventHandlers
from ctrlruntime.cache.events import DeleteEvent, Event, EventHandler, UpdateEvent
from ctrlruntime.cache.informer_options import InformerOptions, Transform
from ctrlruntime.cache.kind_follower import KindFollower
from ctrlruntime.cache.listwatch import ListWatch, read_one
from ctrlruntime.cache.object_decoder import ObjectDecoder
from ctrlruntime.cache.observe import InformerObserver, InformerStats, NoInformerObserver
from ctrlruntime.cache.own_changes import OwnChanges
from ctrlruntime.cache.own_events import OwnEvents
from ctrlruntime.cache.reflector import Reflector, ServerFeatures
from ctrlruntime.cache.registration import Registration, wait_for
from ctrlruntime.cache.scope_sink import ReplaceList, ScopeSink
from ctrlruntime.cache.selection import Selection
from ctrlruntime.cache.slot_moves import SlotMoves
from ctrlruntime.cache.slot_watch import SlotScopes
from ctrlruntime.cache.store import IndexFn, Store
from ctrlruntime.cache.usercode import check_synchronous
from ctrlruntime.cache.versions import number
from ctrlruntime.cache.write_overlay import ListTicket, PendingWrite, WriteOverlay
from ctrlruntime.client.errors import INSTALL
from ctrlruntime.side_by_side import as_failure, first_to_end, is_being_cancelled

__all__ = ["Informer", "InformerOptions", "Registration", "Selection", "Transform"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InformerDeps:
    """What an informer needs of its cache."""

    resolve: Callable[[], Awaitable[RESTMapping]]
    """Use discovery; raises NoKindMatch."""
    list_watch: Callable[["Informer", str | None, str], ListWatch]
    """For one namespace, or None for all, and a label selector."""
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
        deps: InformerDeps,
        *,
        metadata_only: bool = False,
        track_manager: str | None = None,
        indexes: Mapping[str, IndexFn] | None = None,
        transform: Transform | None = None,
        slots: Iterable[int] = (),
    ) -> None:
        """`slots`: those that a sharded selection begins with."""
        self.mapping = mapping
        self.selection = selection
        self.metadata_only = metadata_only
        self.track_manager = track_manager
        self._deps = deps
        self._log: FilteringBoundLogger = (
            deps.logger if deps.logger is not None else structlog.get_logger("ctrlruntime.cache")
        ).bind(kind=str(mapping.gvk))
        self.store = Store(indexes, on_index_failure=self._index_failed)
        self.last_error: Exception | None = None
        self.missing_since: float | None = None
        """When the server was found to lack the kind (the cache's clock); None while it has it."""
        if transform is not None:
            check_synchronous(transform, f"{mapping.gvk}: the transform")
        reflector = deps.options.reflector
        self._clock = reflector.clock
        self._restarts = Restarts(reflector.backoff, clock=reflector.clock, random=reflector.random)
        self._restarting = False
        self._slots = SlotScopes(selection, self.store, slots)
        self._reflectors: dict[str, Reflector] = {}
        self._handlers = EventHandlers(
            mapping.gvk, self.store, observer=deps.observer, logger=self._log
        )
        self._unlisted = set(selection.scopes)
        self._refreshing: set[str] = set()
        self._synced = asyncio.Event()
        self.readable = False
        """Whether it was ever synced; it stays so while a widened selection of fields is read."""
        self._started_at = self._clock()
        self._last_event_at = self._clock()
        self._lists = 0
        self._decoder = self._new_object_decoder(transform)
        self.decode = self._decoder.decode
        self.decode_listed = self._decoder.decode_listed
        self._overlay = self._new_overlay()
        self.own_events = OwnEvents(self.store)
        self._own_changes = OwnChanges()
        self.unconfirmed = self._overlay.unconfirmed
        """Whether a key is unconfirmed. Looked up here: it is called for every reconcile and every write."""
        self._follower = self._new_follower()
        self._in_pages = False
        self._catch_up = self._new_catch_up()
        self.moves = self._new_moves()

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

    async def catch_up(self, timeout: float = BOUND) -> None:
        """Have what the server has now: a list proves it, and is read anew where the watch lags.

        Returns after ``timeout`` seconds in any case. One that has not synced, or whose kind is missing, has
        nothing to prove; neither has one whose list ended within the last second.
        """
        if self.synced and self.missing_since is None:
            await self._catch_up.run(self.selection.scopes, timeout)

    @property
    def restarting(self) -> bool:
        """Whether an unexpected error ended list and watch, and no list was read since."""
        return self._restarting

    @property
    def failed(self) -> bool:
        """Whether ``failure_threshold`` unexpected errors came in a row, the last one not long ago."""
        return self._restarts.in_a_row >= max(1, self._deps.options.failure_threshold)

    @property
    def last_event_age(self) -> float:
        """Seconds since anything came from the server: an event, a bookmark or a list."""
        return self._clock() - self._last_event_at

    @property
    def resource_version(self) -> int:
        """Every event up to here was reported, bookmarks included."""
        return min(self._overlay.progress(scope) for scope in self.selection.scopes)

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
        return self._handlers.add(handler, listed=self.synced)

    def add_drop_handler(self, handler: Callable[[Entry], None]) -> None:
        """Call `handler` with each object that leaves this process with its slot: it is there still, and no event reports it."""
        self.moves.on_drop.append(handler)

    def add_served_handler(self, handler: Callable[[bool], None]) -> None:
        """Call `handler` with False when the server ceases to serve the kind, with True once its objects are listed after that.

        It must not block; the store keeps what was last known meanwhile.
        """
        self._handlers.add_served(handler)

    @property
    def handlers_synced(self) -> bool:
        """Whether every handler was given all objects that were there when it was added."""
        return self._handlers.synced

    def _index_failed(self, index: str, entry: Entry, error: BaseException) -> None:
        self._deps.observer.index_failed(self.gvk)
        self._log.error(
            "an index function failed; the object is kept without a value in that index",
            index=index,
            key=entry.key,
            exc_info=error,
        )

    # -- running ---------------------------------------------------------------------------

    async def run(self) -> None:
        """List and watch until cancelled. An unexpected error starts both again, after a delay."""
        self._started_at = self._clock()
        options = self._deps.options
        while True:
            try:
                await first_to_end(
                    self._handlers.resync(options.resync, options.reflector.random),
                    self._follower.run(),
                )
            except asyncio.CancelledError as error:
                if is_being_cancelled():
                    raise
                unexpected: BaseException = error
            except BaseException as error:  # noqa: BLE001 - whatever it is, the informer goes on
                unexpected = as_failure(error)
            await options.reflector.sleep(self._unexpected(unexpected))

    def _unexpected(self, error: BaseException) -> float:
        """Record an unexpected error. Return the seconds to wait before list and watch start again."""
        self._restarting = True
        delay = self._restarts.record()
        self._deps.observer.restarted(self.gvk)
        self._failed(error if isinstance(error, Exception) else RuntimeError(repr(error)))
        self._log.error(
            "an unexpected error ended list and watch; both start again",
            in_a_row=self._restarts.count,
            delay=delay,
            exc_info=error,
        )
        return delay

    def check_transform(self, transform: Transform | None) -> None:
        """Raise ValueError for a transform other than the informer's own: its users share what it keeps."""
        if transform is not None and transform is not self._decoder.transform:
            raise ValueError(
                f"{self.gvk} is declared already, {'with another' if self._decoder.transform else 'without a'} "
                "transform, and both declarations would share one informer: give the transform to the "
                "first declaration of this kind and selection, or declare another selection"
            )

    def replace_transform(self, transform: Transform | None) -> Transform | None:
        """Have later states changed by another function. Returns the former; what is stored stays as it is."""
        former, self._decoder.transform = self._decoder.transform, transform
        return former

    def widen(self, *, metadata_only: bool, track_manager: str | None) -> bool:
        """Add the needs of a further declaration. True if a running informer has to start again."""
        full = self.metadata_only and not metadata_only
        track = track_manager is not None and track_manager != self.track_manager
        if track and self.track_manager is not None:
            raise ValueError(
                f"{self.gvk} is already declared with track_manager={self.track_manager!r}; "
                f"{track_manager!r} cannot be tracked as well: write the kind by one Control, or declare each with a "
                "selection of its own, such as labels= of what its Control makes"
            )
        if not full and not track:
            return False
        self.metadata_only = self.metadata_only and metadata_only
        self.track_manager = track_manager or self.track_manager
        self._decoder.decoder = self._new_decoder()
        self._unlisted = set(self.selection.scopes)
        self._refreshing = set(self.selection.scopes)
        self._synced.clear()
        return True

    def discovery_changed(self) -> None:
        """Look for the kind again: a missing one may have appeared."""
        self._follower.discovery_changed()

    def check_served(self) -> None:
        """Read the list again, now and a few times in the next half a minute, unless the kind is gone.

        An API server goes on serving a kind for a moment after its CRD was deleted, and may leave a watch
        open that began then.
        """
        self._follower.check_served()

    def _relist_in_pages(self) -> None:
        self._in_pages = True
        self._follower.relist()

    async def _resolve(self) -> None:
        self.mapping = await self._deps.resolve()

    async def _reflect(self, anew: bool) -> None:
        """Raise KindMissing."""
        in_pages, self._in_pages = self._in_pages, False
        before, self._reflectors = self._reflectors, {}
        slots, versions = self._slots.next_watch(
            {} if anew else {scope: each.version for scope, each in before.items()}
        )
        for scope in self.selection.scopes:
            self._reflectors[scope] = Reflector(
                self._source(scope),
                self._sink(scope, partial(self._replace, slots=slots)),
                self._deps.options.reflector,
                features=self._deps.features,
                in_pages=in_pages,
                version=versions.get(scope, ""),
                name=str(self.gvk),
                logger=self._deps.logger,
            )
        await first_to_end(*(each.run() for each in self._reflectors.values()))

    def _source(self, scope: str, slots: Iterable[int] | None = None) -> ListWatch:
        """For the slots that it has, or for these."""
        return self._deps.list_watch(self, scope or None, self._slots.labels(slots))

    def _lister(self, scope: str, slots: frozenset[int], replace: ReplaceList) -> Reflector:
        """Return a reflector to list slots once."""
        source, sink = self._source(scope, slots), self._sink(scope, replace)
        return Reflector(source, sink, self._deps.options.reflector, name=str(self.gvk))

    def _sink(self, scope: str, replace: ReplaceList) -> ScopeSink:
        return ScopeSink(
            scope,
            self._overlay,
            self._decoder,
            reported=self.own_events.reported,
            observed=self._observed,
            replace=replace,
            emit=self._handlers.emit,
            touched=self._touched,
            watch_restarted=lambda: self._deps.observer.watch_restarted(self.gvk),
            failed=self._failed,
            slots=self._slots.of(scope),
        )

    def _missing(self, error: Exception) -> None:
        self.last_error = error
        self._slots.forget()
        if self.missing_since is None:
            self.missing_since = self._clock()
            self._log.warning("the server does not serve this kind; waiting for it", fix=INSTALL)
            self._deps.on_readiness(self)
            self._handlers.emit_served(False)

    def _failed(self, error: Exception) -> None:
        self.last_error = error
        if self._deps.options.on_error is None:
            return
        try:
            self._deps.options.on_error(self.gvk, error)
        except Exception as failure:  # noqa: BLE001 - whoever listens must not end the watch
            self._log.error("the error handler failed", exc_info=failure)

    def _discovery_failed(self, error: Exception) -> None:
        self._failed(error)
        self._log.warning("discovery failed", error=str(error))

    # -- what comes from the reflector -----------------------------------------------------

    async def _replace(
        self,
        scope: str,
        ticket: ListTicket,
        entries: Iterable[Entry],
        version: str,
        *,
        slots: frozenset[int],
        consistent: bool,
        trusted: bool,
    ) -> None:
        """`slots`: those that the list was read for, of a sharded selection."""
        first = scope in self._unlisted
        changes = self._overlay.replace(
            ticket,
            self._slots.of_slots(slots, entries),
            version,
            initial=first and not self.readable,
            consistent=consistent,
            trusted=trusted,
            refreshing=scope in self._refreshing,
            keys=self._slots.keys(scope, slots),
        )
        for count, event in enumerate(changes, 1):
            self._handlers.emit(event)
            if count % BREATH == 0:
                await asyncio.sleep(0)
        self._handlers.emit_all(self._as_of_now(self._own_changes.relisted()))
        self._slots.listed(scope, slots, version, trusted=trusted)
        self._touched()
        self._catch_up.listed(scope)
        self._lists += 1
        self._restarting = False
        self.last_error = None
        was_missing, self.missing_since = self.missing_since is not None, None
        if first:
            self._refreshing.discard(scope)
            self._scope_listed(scope)
        else:
            self._deps.observer.relisted(self.gvk)
        if was_missing:
            self._handlers.emit_served(True)

    def _scope_listed(self, scope: str) -> None:
        self._unlisted.discard(scope)
        if self._unlisted:
            return
        if not self.readable:
            self._deps.observer.synced(self.gvk, self._clock() - self._started_at)
        self.readable = True
        self._synced.set()
        self._handlers.informer_listed()
        self._deps.on_readiness(self)

    def _touched(self) -> None:
        self._last_event_at = self._clock()
        self._catch_up.progressed()

    # -- our own requests ------------------------------------------------------------------

    def covers(self, namespace: str) -> bool:
        return self.selection.covers(namespace)

    def begin(self, key: Key) -> PendingWrite:
        """Before a request about ``key``. Pass the ticket to ``end`` in any case."""
        self._own_changes.begin(key)
        return self._overlay.begin(key)

    def end(self, ticket: PendingWrite) -> None:
        """Report again what the watch brought meanwhile, as far as it was not of this request."""
        self._overlay.end(ticket)
        self._handlers.emit_all(self._as_of_now(self._own_changes.end(ticket.key)))

    def _observed(self, entry: Entry, event: Event | None) -> Event | None:
        """Return what to report of an event of the watch, and of the change it made, if any."""
        reported = self._own_changes.observed(entry, event)
        if reported is event or not isinstance(reported, UpdateEvent):
            return reported
        return next(iter(self._as_of_now([reported])), None)

    def _as_of_now(self, changes: list[UpdateEvent]) -> list[Event]:
        """Return changes that are reported again with the state that is kept now: handlers must not go back to an older one."""
        found: list[Event] = []
        for each in changes:
            now = self.store.get(each.new.name, namespace=each.new.namespace)
            if now is not None and now.uid == each.new.uid:
                found.append(UpdateEvent(each.old, now))
        return found

    def wrote(self, entry: Entry, ticket: PendingWrite | None = None) -> None:
        """Take in an answered write: it is visible from now on. ``ticket``: that of the write, if its key was known before."""
        events = self._overlay.wrote(entry, ticket)
        self._own_changes.wrote(entry, events)
        if events:
            self.own_events.expect(entry)
            self._handlers.emit_all(events)

    def deleted(self, ticket: PendingWrite, uid: str | None) -> None:
        """Take in an answered delete: the object is gone from now on, whatever the watch still has to tell."""
        events = self._overlay.deleted(ticket, uid)
        if events and isinstance(events[-1], DeleteEvent):
            self._own_changes.gone(ticket.key)
        self._handlers.emit_all(events)

    def write_failed(self, error: Exception) -> None:
        """Record an unexpected error with the answer to a write, and read the list again."""
        self._failed(error)
        self._log.error(
            "the answer to a write could not be taken over; the list is read again", exc_info=error
        )
        self.check_served()

    def deleting(self, entry: Entry) -> None:
        """One object of the answer to a deletecollection: uncertain until the watch confirms its deletion."""
        self._handlers.emit_all(self._overlay.deleting(entry))

    def doubt(self, key: Key) -> None:
        """Mark ``key`` as unconfirmed until it is read from the server."""
        self._overlay.doubt(key)

    def doubt_selected(self, selection: Selection) -> None:
        """Mark every object of ``selection`` as uncertain, and read the list again, which settles all of them."""
        matches = selection.matcher(metadata_only=self.metadata_only)
        for entry in self.store:
            if selection.covers(entry.namespace) and matches(entry) is not False:
                self.doubt(entry.key)
        self.check_served()

    @property
    def unconfirmed_keys(self) -> list[Key]:
        return self._overlay.unconfirmed_keys

    async def refresh(self, key: Key) -> Entry | None:
        """Read one object from the server, into the store. A list of one tells the version even of nothing."""
        namespace, name = key
        source = self._source(namespace)
        ticket = self._overlay.begin(key)
        try:
            entry, version = await read_one(source, name, self.decode_listed)
            if 0 < number(version) < ticket.bound:  # the server lags behind what is known here
                entry, version = await read_one(
                    source, name, self.decode_listed, not_older_than=str(ticket.bound)
                )
            self._handlers.emit_all(self._overlay.settle(ticket, entry, version))
        finally:
            self._overlay.end(ticket)
        return self.store.get_by_key(key)

    def _new_decoder(self) -> EntryDecoder:
        return EntryDecoder(
            self.gvk,
            metadata_only=self.metadata_only,
            track_manager=self.track_manager,
            on_unreadable=self._unreadable,
        )

    def _unreadable(self, entry: Entry, fault: str) -> None:
        self._deps.observer.unreadable(self.gvk)
        self._log.error(
            "an object cannot be read; it is kept with its metadata, and no other is affected",
            key=entry.key,
            uid=entry.uid,
            fault=fault,
        )

    def _new_object_decoder(self, transform: Transform | None) -> ObjectDecoder:
        return ObjectDecoder(
            self.store,
            self._new_decoder(),
            transform,
            failed=self._failed,
            transform_failed=lambda: self._deps.observer.transform_failed(self.gvk),
            logger=self._log,
        )

    def _new_moves(self) -> SlotMoves:
        return SlotMoves(
            self._slots,
            self._overlay,
            self._own_changes,
            self._lister,
            emit=self._handlers.emit,
            follow=self._follower.go_on,
        )

    def _new_follower(self) -> KindFollower:
        return KindFollower(
            resolve=self._resolve,
            reflect=self._reflect,
            retry=self._deps.options.missing_retry,
            missing=self._missing,
            discovery_failed=self._discovery_failed,
        )

    def _new_catch_up(self) -> CatchUp:
        return CatchUp(
            self._overlay,
            self._source,
            self._decoder.decode_listed,
            relist=self._relist_in_pages,
            clock=self._clock,
            logger=self._log,
        )

    def _new_overlay(self) -> WriteOverlay:
        selection = self.selection
        return WriteOverlay(
            self.store,
            clock=self._clock,
            matches=self._slots.matcher(selection.matcher(metadata_only=self.metadata_only)),
            namespaces=selection.namespaces or (),
            selective=bool(selection.label_keys or selection.fields),
        )
