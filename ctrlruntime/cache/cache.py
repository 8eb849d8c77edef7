"""Declared informers, and reads from their stores."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar, overload

import structlog
from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import GroupKind, GroupVersionKind, Manifest, RESTMapping
from ctrlruntime.api.resource import (
    KindRef,
    Resource,
    TypedKindRef,
    UntypedKindRef,
    assumed_mapping,
    gvk_of,
    mapping_of,
)
from ctrlruntime.cache.cached import CachedClient
from ctrlruntime.cache.entry import Entry, Key, KindT
from ctrlruntime.cache.errors import (
    CacheNotStarted,
    OnlyMetadata,
)
from ctrlruntime.cache.informer import (
    Informer,
    InformerDeps,
    Selection,
    Transform,
)
from ctrlruntime.cache.listwatch import ListWatch, ServerListWatch
from ctrlruntime.cache.lookup import InformerLookup, Informers, readable, shows
from ctrlruntime.cache.observe import InformerObserver, InformerStats, NoInformerObserver
from ctrlruntime.cache.options import CacheOptions, KindCacheOptions
from ctrlruntime.cache.reading import Query
from ctrlruntime.cache.redeclaration import Redeclaration, RestartNeeded
from ctrlruntime.cache.reflector import ServerFeatures
from ctrlruntime.cache.selection import both_labels
from ctrlruntime.cache.store import IndexFn
from ctrlruntime.cache.uses import Declared, InformerHandle, InformerUses, Use
from ctrlruntime.client.client import Client
from ctrlruntime.client.protected_namespaces import ProtectedNamespaces
from ctrlruntime.client.selectors import FieldSelector, LabelSelector, field_text, label_text

__all__ = ["Cache", "CacheOptions", "CachedClient", "InformerHandle", "KindCacheOptions"]

R = TypeVar("R", bound=Resource[Any, Any])

ObjectList: TypeAlias = list[R]
Manifests: TypeAlias = list[Manifest]
Objects: TypeAlias = list[Any]
Entries: TypeAlias = list[Entry]
TypedEntries: TypeAlias = list[Entry[R]]
Stats: TypeAlias = list[InformerStats]
Doubts: TypeAlias = list[tuple[RESTMapping, Key]]


class Cache:
    """What controllers read from. Every kind is declared first; reading another is an error.

    One store per kind serves typed, dict and metadata readers, each with a copy of its own.
    """

    def __init__(
        self,
        client: Client,
        options: CacheOptions | None = None,
        observer: InformerObserver | None = None,
        *,
        logger: FilteringBoundLogger | None = None,
    ) -> None:
        self.live_client = client
        self.options = options or CacheOptions()
        self.field_managers: set[str] = set()
        """Those of the Controls that write by this cache, which therefore compare what it tracks."""
        self.protected = ProtectedNamespaces()
        """Where no Control that writes by this cache writes."""
        self._observer: InformerObserver = observer or NoInformerObserver()
        self._features = ServerFeatures()
        self._log: FilteringBoundLogger = (
            logger if logger is not None else structlog.get_logger("ctrlruntime.cache")
        )
        self._uses = InformerUses(self._log)
        self._lookup = InformerLookup()
        self._again: Redeclaration | None = None
        self._slots: frozenset[int] = frozenset()

    # -- declaring -------------------------------------------------------------------------

    def declare(
        self,
        kind: TypedKindRef[KindT],
        *,
        namespaces: Collection[str] | None = None,
        labels: LabelSelector | None = None,
        fields: FieldSelector | None = None,
        metadata_only: bool = False,
        track_manager: str | None = None,
        indexes: Mapping[str, IndexFn[KindT]] | None = None,
        transform: Transform[KindT] | None = None,
        optional: bool = False,
        sync_timeout: float | None = None,
        sharded: bool | None = None,
    ) -> InformerHandle:
        """Request that a kind is watched, from now or from the start of the cache on.

        The same kind and selection share one informer: indexes add up, full wins over
        ``metadata_only`` (an informer that runs already is read again). ``labels`` and ``fields``
        restrict what is cached: everything else is not found. ``track_manager`` keeps that field
        manager's owned fields as ``Entry.owned``. ``sync_timeout`` is the number of seconds that
        `wait_started` gives the first list; with ``optional`` it then goes on without it. ``sharded``: only objects
        of the slots that were taken (`take_slots`); by default as the options have it. Raises ValueError for a second track_manager
        and for a transform on an informer that has another or none, InvalidSelector, and IndexConflict.
        """
        mapping, certain = self._mapping(kind)
        selection = self._selection(mapping, namespaces, labels, fields, sharded)
        key = (mapping.gvk, selection)
        use = self._uses.find(key)
        if use is None:
            informer = self._new_informer(
                mapping,
                certain,
                selection,
                metadata_only=metadata_only,
                track_manager=track_manager,
                indexes=indexes,
                transform=transform,
            )
            use = self._uses.add(key, informer)
            self._lookup.add(informer)
        else:
            self._share(use, metadata_only, track_manager, indexes, transform)
        use.declare(optional=optional, sync_timeout=sync_timeout)
        handle = InformerHandle(use.informer, lambda: self._release(key))
        if self._again is not None:
            self._again.handles.append(handle)
        return handle

    @contextmanager
    def redeclaring(self) -> Iterator[Redeclaration]:
        """Let declarations, until the block is left, take the place of former ones.

        For code that was loaded again: its functions replace those of the informers that run, which go on.
        """
        self._again = again = Redeclaration()
        try:
            yield again
        finally:
            self._again = None

    # -- reading ---------------------------------------------------------------------------

    def informer(self, kind: KindRef, *, tracked: str | None = None) -> Informer:
        """Return the informer of a kind. Raises UndeclaredKind.

        Of several, one that tracks the field manager `tracked`, else the one that watches everything.
        """
        informers = self._lookup.of(kind)
        return next((each for each in informers if tracked == each.track_manager), informers[0])

    def metadata_only(self, kind: KindRef) -> bool:
        """Whether no informer of the kind keeps whole objects. Raises UndeclaredKind.

        The answer to a write may then be metadata alone.
        """
        for informer in self._lookup.of(kind):  # noqa: SIM110 - a loop: it runs for every write
            if not informer.metadata_only:
                return False
        return True

    @overload
    def entry(
        self,
        kind: type[R],
        name: str,
        *,
        namespace: str | None = None,
        tracked: str | None = None,
    ) -> Entry[R] | None: ...
    @overload
    def entry(
        self,
        kind: UntypedKindRef,
        name: str,
        *,
        namespace: str | None = None,
        tracked: str | None = None,
    ) -> Entry | None: ...
    def entry(
        self,
        kind: KindRef,
        name: str,
        *,
        namespace: str | None = None,
        tracked: str | None = None,
    ) -> Entry | None:
        """Return the shared entry itself, to be read and not changed. Raises what `get` raises.

        Where several informers of the kind have the object, the entry comes from the one that tracks
        the field manager `tracked`, else from one that keeps whole objects. For a reader whose own informer
        keeps whole objects, an object that it does not select is not taken from an informer of metadata.
        """
        namespace = namespace or ""
        informers = self._lookup.of(kind)
        if len(informers) == 1 and self._uses.started and shows(only := informers[0], namespace):
            return only.store.get_by_key((namespace, name))
        for informer in self._readable(kind, namespace or None, tracked=tracked):
            if (entry := informer.store.get(name, namespace=namespace)) is not None:
                return entry
        return None

    @overload
    def entries(
        self,
        kind: type[R],
        namespace: str | None = None,
        *,
        labels: LabelSelector | None = None,
        fields: FieldSelector | None = None,
        index: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> TypedEntries[R]: ...
    @overload
    def entries(
        self,
        kind: UntypedKindRef,
        namespace: str | None = None,
        *,
        labels: LabelSelector | None = None,
        fields: FieldSelector | None = None,
        index: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> Entries: ...
    def entries(
        self,
        kind: KindRef,
        namespace: str | None = None,
        *,
        labels: LabelSelector | None = None,
        fields: FieldSelector | None = None,
        index: Mapping[str, str] | None = None,
        limit: int | None = None,
    ) -> Entries:
        """Like `list`, but the shared entries themselves."""
        query = Query(
            namespace=namespace, labels=labels, fields=fields, index=index or {}, limit=limit
        )
        informers = self._readable(kind, namespace, indexes=frozenset(index or ()))
        return query.run([informer.store for informer in informers])

    @overload
    def get(
        self, kind: type[R], name: str, *, namespace: str | None = None, metadata_only: bool = False
    ) -> R | None: ...
    @overload
    def get(
        self,
        kind: UntypedKindRef,
        name: str,
        *,
        namespace: str | None = None,
        metadata_only: bool = False,
    ) -> Manifest | None: ...
    def get(
        self, kind: KindRef, name: str, *, namespace: str | None = None, metadata_only: bool = False
    ) -> Any:
        """One object, the caller's own copy, or None.

        With ``metadata_only`` always a manifest of apiVersion, kind and metadata. Raises
        UndeclaredKind, CacheNotStarted, NotSynced, OutsideCache for a namespace not watched, and
        OnlyMetadata when more is asked for than is watched.
        """
        entry = self.entry(kind, name, namespace=namespace)
        if not metadata_only and self.metadata_only(kind):
            raise OnlyMetadata(gvk_of(kind))
        return None if entry is None else _view(entry, kind, metadata_only)

    @overload
    def list(
        self,
        kind: type[R],
        namespace: str | None = None,
        *,
        labels: LabelSelector | None = None,
        fields: FieldSelector | None = None,
        index: Mapping[str, str] | None = None,
        limit: int | None = None,
        metadata_only: bool = False,
    ) -> ObjectList[R]: ...
    @overload
    def list(
        self,
        kind: UntypedKindRef,
        namespace: str | None = None,
        *,
        labels: LabelSelector | None = None,
        fields: FieldSelector | None = None,
        index: Mapping[str, str] | None = None,
        limit: int | None = None,
        metadata_only: bool = False,
    ) -> Manifests: ...
    def list(
        self,
        kind: KindRef,
        namespace: str | None = None,
        *,
        labels: LabelSelector | None = None,
        fields: FieldSelector | None = None,
        index: Mapping[str, str] | None = None,
        limit: int | None = None,
        metadata_only: bool = False,
    ) -> Objects:
        """Objects that satisfy all of: namespace, labels, field selectors and index values.

        Field selectors other than metadata.name and metadata.namespace need an index of that name.
        Raises what `get` raises, UnknownIndex, and UnsupportedRead for ``!=``.
        """
        self._check_full(kind, metadata_only)
        found = self.entries(
            kind, namespace, labels=labels, fields=fields, index=index, limit=limit
        )
        return [_view(entry, kind, metadata_only) for entry in found]

    # -- our own writes --------------------------------------------------------------------

    def client(self) -> CachedClient:
        """Read declared kinds from here; its writes are visible here as soon as they are answered."""
        return CachedClient(self)

    def unconfirmed(self, kind: KindRef, name: str, *, namespace: str | None = None) -> bool:
        """Whether a write got no answer, so that the object has to be read from the server first."""
        key = (namespace or "", name)
        for informer in self._lookup.of(kind):  # noqa: SIM110 - a loop: it runs for every reconcile
            if informer.unconfirmed(key):
                return True
        return False

    def unconfirmed_keys(self) -> Doubts:
        return [
            (informer.mapping, key) for informer in self._uses for key in informer.unconfirmed_keys
        ]

    async def refresh(
        self, kind: KindRef, name: str, *, namespace: str | None = None
    ) -> Entry | None:
        """Read one object from the server into the stores. Returns its entry, None if there is none."""
        found: Entry | None = None
        for informer in self._lookup.of(kind):
            if informer.covers(namespace or "") or not informer.mapping.namespaced:
                found = await informer.refresh((namespace or "", name)) or found
        return found

    async def settle(self, kind: KindRef | None = None) -> None:
        """Read every object in doubt (of one kind) from the server; an idle cache has none."""
        for informer in list(self._uses) if kind is None else self._lookup.of(kind):
            for key in informer.unconfirmed_keys:
                await informer.refresh(key)

    def informers_of(self, kind: GroupKind) -> Informers:
        """Every informer of a kind, in whatever version and selection."""
        return self._lookup.of_every_version(kind)

    def informers(self) -> tuple[Informer, ...]:
        """Return every informer in use."""
        return tuple(self._uses)

    # -- slots -----------------------------------------------------------------------------

    async def take_slots(self, slots: frozenset[int]) -> None:
        """Add slots to every sharded informer: list their objects, which are reported as initial, and watch them.

        Returns when all have them, but for optional kinds that cannot be listed, which is logged. Raises what a list
        raises; call it again then, or `drop_slots`.
        """
        self._slots |= slots  # declarations that come meanwhile begin with them
        await self._uses.take_slots(slots)

    async def drop_slots(self, slots: frozenset[int]) -> None:
        """Forget the objects of slots, without delete events, and watch them no more."""
        self._slots -= slots
        await self._uses.drop_slots(slots)

    # -- life ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start every declared informer and return; see `wait_synced`. Once only."""
        self._uses.start()

    async def run(self) -> None:
        """Start, and stop when cancelled."""
        await self.start()
        try:
            await self._uses.wait_ended()
        finally:
            await self.stop()

    async def stop(self) -> None:
        """End every watch. The stores stay readable."""
        await self._uses.stop()

    @property
    def stopped(self) -> bool:
        return self._uses.stopped

    @property
    def synced(self) -> bool:
        """Whether every declared informer has synced and none starts again after an unexpected error.

        Kinds that the server does not serve are left out.
        """
        return self._uses.synced

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Kinds that the server lacks are not waited for; see `missing`. Raises TimeoutError naming the rest."""
        await self._uses.wait_synced(timeout)

    async def wait_started(self, timeout: float) -> None:
        """Wait until every declared kind has synced, each no longer than its own ``sync_timeout``.

        Where none was declared, ``timeout`` seconds are the limit.

        Optional kinds that have not synced by then are logged, and not waited for; reading them raises NotSynced.
        Raises CacheSyncTimeout, which names the other kinds.
        """
        await self._uses.wait_started(timeout)

    def declared(self) -> dict[RESTMapping, bool]:
        """Return the declared kinds, and for each whether every declaration keeps metadata only."""
        return self._uses.declared()

    def unsynced(self) -> dict[GroupVersionKind, Exception | None]:
        """Return the kinds that keep `synced` False, and the last error of each."""
        return self._uses.unsynced()

    def failed(self) -> dict[GroupVersionKind, Exception | None]:
        """Return kinds whose informer has had ``failure_threshold`` unexpected errors in a row, or has ended, and the last error of each."""
        return self._uses.failed()

    def missing(self) -> dict[GroupVersionKind, float]:
        """Return declared kinds that the server does not serve, and since when (seconds since the epoch)."""
        now, tick = self.options.clock(), self.options.informers.reflector.clock()
        return {
            informer.gvk: now - (tick - informer.missing_since)
            for informer in self._uses
            if informer.missing_since is not None
        }

    def notify_discovery_changed(self, *, removed: str = "") -> None:
        """Look for missing kinds now, since a CRD came or went. Called by a watch on CRDs.

        `removed`: the name of a CRD that was deleted (`<plural>.<group>`): informers of its kinds check
        whether they are served still.
        """
        self.live_client.mapper.invalidate()
        for informer in self._uses:
            if informer.missing_since is not None:
                informer.discovery_changed()
            elif removed and removed == f"{informer.mapping.plural}.{informer.gvk.group}":
                informer.check_served()

    def stats(self) -> Stats:
        """For gauges, one for each informer."""
        return [informer.stats() for informer in self._uses]

    # -- inside ----------------------------------------------------------------------------

    def _new_informer(
        self,
        mapping: RESTMapping,
        certain: bool,
        selection: Selection,
        *,
        metadata_only: bool,
        track_manager: str | None,
        indexes: Mapping[str, IndexFn] | None,
        transform: Transform | None,
    ) -> Informer:
        async def resolve() -> RESTMapping:
            return mapping if certain else await self.live_client.mapper.resolve(mapping.gvk)

        surroundings = InformerDeps(
            resolve=resolve,
            list_watch=self._list_watch,
            options=self.options.informers,
            observer=self._observer,
            features=self._features,
            on_readiness=self._uses.record_readiness,
            logger=self._log,
        )
        return Informer(
            mapping,
            selection,
            surroundings,
            metadata_only=metadata_only,
            track_manager=track_manager,
            indexes=indexes,
            transform=transform,
            slots=self._slots,
        )

    def _mapping(self, kind: KindRef) -> tuple[RESTMapping, bool]:
        """Return the mapping and whether it is certain: discovery has to be asked for an unknown name."""
        mapping = mapping_of(kind)
        if mapping is not None:
            return mapping, True
        gvk = gvk_of(kind)
        known = self.live_client.mapper.known(gvk)
        return known or assumed_mapping(gvk), known is not None

    def _selection(
        self,
        mapping: RESTMapping,
        namespaces: Collection[str] | None,
        labels: LabelSelector | None,
        fields: FieldSelector | None,
        sharded: bool | None = None,
    ) -> Selection:
        own = self.options.kinds.get(mapping.gvk, KindCacheOptions())
        if namespaces is not None and not mapping.namespaced:
            raise ValueError(f"{mapping.gvk} is cluster-scoped and cannot be watched by namespace")
        if mapping.namespaced:
            for inherited in (own.namespaces, self.options.namespaces):
                namespaces = inherited if namespaces is None else namespaces
        return Selection(
            namespaces=None if namespaces is None else frozenset(namespaces),
            labels=both_labels(
                None if own.unselected else self.options.labels,
                label_text(own.labels if labels is None else labels),
            ),
            fields=field_text(own.fields if fields is None else fields),
            sharded=self.options.sharded and not own.unselected if sharded is None else sharded,
        )

    def _list_watch(self, informer: Informer, namespace: str | None, labels: str) -> ListWatch:
        return ServerListWatch(
            self.live_client.transport,
            informer.mapping,
            namespace=namespace,
            labels=labels,
            fields=informer.selection.fields,
            metadata_only=informer.metadata_only,
        )

    def _share(
        self,
        use: Use,
        metadata_only: bool,
        track_manager: str | None,
        indexes: Mapping[str, IndexFn] | None,
        transform: Transform | None,
    ) -> None:
        informer = use.informer
        if self._again is not None:
            self._again.replace(informer, transform, indexes)
        else:
            informer.check_transform(transform)
            for name, fn in (indexes or {}).items():
                informer.store.add_index(name, fn)
        try:
            widened = informer.widen(metadata_only=metadata_only, track_manager=track_manager)
        except ValueError as error:
            if self._again is None:
                raise
            raise RestartNeeded(f"{error}, until a restart") from error
        if widened:
            self._uses.restart(use)

    def _release(self, declared: Declared) -> None:
        informer = self._uses.release(declared)
        if informer is not None:
            self._lookup.remove(informer)

    def _readable(
        self,
        kind: KindRef,
        namespace: str | None,
        *,
        tracked: str | None = None,
        indexes: frozenset[str] = frozenset(),
    ) -> Informers:
        informers = self._lookup.of(kind)
        if not self._uses.started:
            raise CacheNotStarted
        return readable(informers, namespace, tracked=tracked, indexes=indexes)

    def _check_full(self, kind: KindRef, metadata_only: bool) -> None:
        if not metadata_only and self.metadata_only(kind):
            raise OnlyMetadata(gvk_of(kind))


def _view(entry: Entry, kind: KindRef, metadata_only: bool) -> Resource[Any, Any] | Manifest:
    if metadata_only:
        return {"apiVersion": entry.api_version, "kind": entry.kind, "metadata": entry.metadata()}
    if isinstance(kind, type):
        return entry.typed(kind)
    return entry.decode()
