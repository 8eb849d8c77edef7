"""Puts a controller together and adds it to a manager."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Self, cast

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.api.resource import KindRef, TypedKindRef, gvk_of, mapping_of
from ctrlruntime.cache.entry import KindT
from ctrlruntime.cache.store import IndexFn
from ctrlruntime.cache.usercode import check_synchronous
from ctrlruntime.cluster.cluster import Cluster
from ctrlruntime.cluster.selection import LOCAL_NAME, ClusterRef, ClusterSet, includes, normalized
from ctrlruntime.controller import permissions
from ctrlruntime.controller.cluster_controllers import (
    ClusterController,
    ClusterControllers,
    ClusterQueue,
    DropGoneCluster,
)
from ctrlruntime.controller.controller import Controller
from ctrlruntime.controller.controller_host import ControllerHost
from ctrlruntime.controller.declared_watches import (
    BuilderError,
    DeclaredOwned,
    DeclaredWatch,
    check_tracked,
)
from ctrlruntime.controller.event_dispatch import Handler
from ctrlruntime.controller.handlers import enqueue_object, enqueue_owner, planned_mapping
from ctrlruntime.controller.last_reconciled import LastReconciled
from ctrlruntime.controller.object_daemons import (
    DaemonFunc,
    ObjectDaemons,
    WithDaemons,
    check_daemon,
    or_goes,
)
from ctrlruntime.controller.object_timer import ObjectTimer, check_interval
from ctrlruntime.controller.options import ControllerOptions, Settings, merged
from ctrlruntime.controller.predicates import Predicate
from ctrlruntime.controller.reconcile import (
    BlockingReconciler,
    ReconcileFunc,
    Reconciler,
    check_reconciler,
)
from ctrlruntime.controller.refresh_unconfirmed import RefreshUnconfirmed
from ctrlruntime.controller.slot_gate import SlotGate, SlotOf, requests_of, slot_of_request
from ctrlruntime.controller.slot_labels import WITHOUT_SLOT, SlotLabels, reporting_mislabelled
from ctrlruntime.controller.sources import KindSource, Source
from ctrlruntime.controller.threads import as_asynchronous
from ctrlruntime.queue import PriorityQueue, Request, RequestT

if TYPE_CHECKING:
    from ctrlruntime.cache.cache import Cache
    from ctrlruntime.cache.informer import Transform
    from ctrlruntime.client.selectors import FieldSelector, LabelSelector

Indexes = Mapping[str, IndexFn[KindT]]


class Builder(Generic[RequestT]):
    """Declares what a controller watches, then builds it.

    ::

        Builder(manager).for_(Tenant).owns(CONFIG_MAP).build(reconciler)

    Every method but :meth:`build` returns the builder. ``Builder[Row](manager)`` builds a controller whose
    requests are of a type of one's own, hashable, which its handlers and map functions make; it has
    :meth:`watches` and a name, but no :meth:`for_`. One kind may be watched several times, each with its
    own selection and handler.

    ``cluster`` of a watch is the manager's own by default; a :class:`Cluster` or its name; or
    ``ClusterSet.ENGAGED`` or ``ALL``. In each engaged cluster the controller has a queue and workers of
    its own, and requests carry the cluster's name.
    """

    def __init__(self, manager: ControllerHost) -> None:
        self._manager = manager
        self._primary: DeclaredWatch | None = None
        self._primary_mapping: RESTMapping | None = None
        self._owned: list[DeclaredOwned] = []
        self._watches: list[DeclaredWatch] = []
        self._sources: list[Source] = []
        self._filters: list[Predicate] = []
        self._derived: list[permissions.Permission] = []
        self._permissions: list[permissions.Permission] = []
        self._declares_writes = False
        self._every: float | None = None
        self._daemon: DaemonFunc | None = None
        self._keep_old = False
        self._name = ""
        self._options = ControllerOptions()
        self._built = False
        self._slot_of: SlotOf | None = None
        self._roots: Callable[[], Iterable[RequestT]] | None = None
        self._cached_whole = False

    def for_(
        self: Builder[Request],
        kind: TypedKindRef[KindT],
        *,
        predicates: Sequence[Predicate[KindT]] = (),
        metadata_only: bool = False,
        namespaces: Collection[str] | None = None,
        labels: LabelSelector | None = None,
        fields: FieldSelector | None = None,
        indexes: Indexes[KindT] | None = None,
        transform: Transform[KindT] | None = None,
        optional: bool = False,
        cluster: ClusterRef = ClusterSet.LOCAL,
        every: float | None = None,
        daemon: DaemonFunc | None = None,
        keep_old: bool = False,
    ) -> Builder[Request]:
        """Set the primary kind: its objects are what is reconciled. Only once.

        A kind named by its text, as "apps/v1/Deployment" or "Deployment.v1.apps", or by a GroupVersionKind,
        has plain manifests as objects. If it is not built in, discovery resolves it at the start; until
        then its plural, which RBAC is generated from, is assumed to be regular.

        ``every``: seconds after which an object that is there is reconciled again if nothing led to a pass
        before, less up to a tenth of them, after failures too. ``daemon``: a coroutine function of the request that runs
        for each object that is there, in a task of its own; it has ended before a pass sees the object go. ``keep_old``
        has `ReconcileContext.change` compare with the object of the last successful pass of this process.
        """
        if self._primary is not None:
            raise BuilderError("for_() was called twice: a controller has one primary kind")
        if every is not None:
            check_interval(every)
        if daemon is not None:
            check_daemon(daemon)
        self._every, self._daemon, self._keep_old = every, daemon, keep_old
        self._primary_mapping = planned_mapping(kind)
        options = {
            "metadata_only": metadata_only,
            "namespaces": namespaces,
            "labels": labels,
            "fields": fields,
            "indexes": indexes,
            "transform": transform,
            "optional": optional,
        }
        self._primary = DeclaredWatch(kind, enqueue_object, tuple(predicates), options, cluster)
        self._derive(cluster, permissions.of_primary(self._primary_mapping))
        return self

    def owns(
        self: Builder[Request],
        kind: TypedKindRef[KindT],
        *,
        controller_only: bool = True,
        predicates: Sequence[Predicate[KindT]] = (),
        metadata_only: bool = False,
        namespaces: Collection[str] | None = None,
        labels: LabelSelector | None = None,
        fields: FieldSelector | None = None,
        track_manager: str | None = None,
        indexes: Indexes[KindT] | None = None,
        transform: Transform[KindT] | None = None,
        optional: bool = False,
        cluster: ClusterRef | None = None,
    ) -> Builder[Request]:
        """Watch a kind that the primary creates: events lead to the owner named in its owner references.

        Owner references do not cross clusters: ``cluster`` is that of for_(), which is the default. What
        is made elsewhere is watched by :meth:`watches`, with a handler that finds the owner.

        ``track_manager`` is the ``field_manager`` of the Control that writes it, and required where the
        cache has a Control; "" for a kind that none writes.
        """
        options = {
            "metadata_only": metadata_only,
            "namespaces": namespaces,
            "labels": labels,
            "fields": fields,
            "track_manager": track_manager,
            "indexes": indexes,
            "transform": transform,
            "optional": optional,
        }
        needed = permissions.of_owned(planned_mapping(kind))
        self._owned.append(
            DeclaredOwned(kind, controller_only, tuple(predicates), options, cluster, needed)
        )
        return self

    def watches(
        self,
        kind: TypedKindRef[KindT],
        handler: Handler[KindT, RequestT],
        *,
        predicates: Sequence[Predicate[KindT]] = (),
        metadata_only: bool = False,
        namespaces: Collection[str] | None = None,
        labels: LabelSelector | None = None,
        fields: FieldSelector | None = None,
        track_manager: str | None = None,
        indexes: Indexes[KindT] | None = None,
        transform: Transform[KindT] | None = None,
        optional: bool = False,
        cluster: ClusterRef = ClusterSet.LOCAL,
    ) -> Self:
        """Any kind, with a handler that maps its events to requests."""
        options = {
            "metadata_only": metadata_only,
            "namespaces": namespaces,
            "labels": labels,
            "fields": fields,
            "track_manager": track_manager,
            "indexes": indexes,
            "transform": transform,
            "optional": optional,
        }
        self._watches.append(DeclaredWatch(kind, handler, tuple(predicates), options, cluster))
        read = permissions.of_read(planned_mapping(kind), metadata_only=metadata_only)
        self._derive(cluster, read)
        return self

    def watches_raw(self, source: Source) -> Self:
        """Add a source that was made elsewhere; the event filter does not apply to it."""
        self._sources.append(source)
        return self

    def event_filter(self, predicate: Predicate) -> Self:
        """Apply a predicate to every watch, before the watch's own. May be called several times."""
        self._filters.append(predicate)
        return self

    def permission(self, group: str, plural: str, *verbs: str) -> Self:
        """Declare a right the reconciler needs beyond what its watches tell."""
        self._permissions.append((group, plural, verbs))
        return self

    def explicit_permissions(self) -> Self:
        """Every right but to follow what is watched is declared by :meth:`permission`.

        For roles without a verb too many: what a reconciler writes is not known otherwise, so that
        it gets every way to write the kinds it is for and owns. `get` is declared as well where
        objects are read one by one past the cache; informers list and watch.
        """
        self._declares_writes = True
        return self

    def sharded(
        self,
        *,
        slot: SlotOf | None = None,
        cached_whole: bool = False,
        roots: Callable[[], Iterable[RequestT]] | None = None,
    ) -> Self:
        """Divide the objects among the processes of ``ManagerOptions(sharding=...)``; without it, no effect.

        The primary kind and what it owns are cached by the slots that this process holds: what a reconciler creates needs
        ``slot_labels(request)``, the leader labels the rest. Watched kinds are cached whole. Runs in each process.
        ``slot``: that of a request of one's own type. ``cached_whole``: so is the primary kind; ``roots`` are queued as slots come.
        """
        self._slot_of = slot or slot_of_request
        self._roots, self._cached_whole = roots, cached_whole
        return self

    def named(self, name: str) -> Self:
        """Set the name of the controller; by default the primary kind in lower case."""
        self._name = name
        return self

    def options(self, options: ControllerOptions) -> Self:
        """Options of this controller; they win over the manager's."""
        self._options = options
        return self

    def build(
        self,
        reconciler: Reconciler[RequestT] | BlockingReconciler[RequestT] | ReconcileFunc[RequestT],
    ) -> Controller[RequestT]:
        """Make the controller, declare its kinds to the cache and add it to the manager.

        ``reconciler`` has a method ``reconcile`` or is a function itself: a coroutine function, or a plain one,
        which runs in a thread.
        Raises BuilderError when parts are missing or do not fit.
        """
        name = self._check()
        self._check_functions(name, reconciler)
        self._check_field_managers()
        manager = self._manager
        group_kind = None if self._primary_mapping is None else self._primary_mapping.gvk.group_kind
        settings = merged(self._options, manager.controller_defaults, group_kind)
        if self._is_sharded:
            settings = self._of_every_member(name, settings)
        if not settings.skip_name_validation:
            manager.claim_controller_name(name)
        made = as_asynchronous(reconciler)
        settings, made = manager.prepare_controller(name, settings, made)
        build = self._build_single if self._is_single() else self._build_multicluster
        controller = build(name, made, settings)
        manager.controller_metrics.watch_queue(name, controller.queue.core)
        manager.add(controller)
        self._built = True
        if self._is_sharded and not self._cached_whole and self._primary is not None:
            self._label_primary(name, self._primary)
        return controller

    def _build_single(
        self, name: str, reconciler: Reconciler[RequestT], settings: Settings
    ) -> Controller[RequestT]:
        cache = self._manager.cache
        sources = self._make_sources(cache, LOCAL_NAME, settings.cache_sync_timeout)
        return Controller(
            name,
            **self._of_cluster(reconciler, cache, LOCAL_NAME, sources),
            sources=[*sources, *self._sources],
            permissions=self._needed(),
            primary=None if self._primary is None else self._primary.kind,
            gate=self._gate(),
            **self._parts(name, settings),
        )

    @property
    def _is_sharded(self) -> bool:
        return self._slot_of is not None and self._manager.shards is not None

    def _gate(self, *, own: bool = True) -> SlotGate[Any] | None:
        """Return what lets requests of held slots into one queue; None for a controller that is not sharded."""
        if self._slot_of is None or (shards := self._manager.shards) is None:
            return None
        whole = self._primary.kind if self._primary is not None and self._cached_whole else None
        cached = partial(requests_of, self._manager.cache, whole)
        return SlotGate(shards, self._slot_of, (self._roots or cached) if own else tuple)

    def _of_every_member(self, name: str, settings: Settings) -> Settings:
        if self._options.needs_leader_election:
            raise BuilderError(
                f"controller {name!r} is sharded, so every process runs it: leave needs_leader_election out"
            )
        return replace(settings, needs_leader_election=False)

    def _label_primary(self, name: str, primary: DeclaredWatch) -> None:
        """Have the leader label objects of the primary kind that have no slot yet, in the manager's own cluster."""
        if not includes(primary.cluster, LOCAL_NAME):
            return
        mapping = planned_mapping(primary.kind)
        builder = Builder(self._manager).for_(
            primary.kind,
            labels=WITHOUT_SLOT,
            metadata_only=True,
            namespaces=primary.options["namespaces"],
            optional=primary.options["optional"],
        )
        builder.explicit_permissions().permission(mapping.gvk.group, mapping.plural, "patch")
        builder.named(f"{name}-slots").build(SlotLabels(self._manager.cache, primary.kind))

    def _build_multicluster(
        self, name: str, reconciler: Reconciler[RequestT], settings: Settings
    ) -> Controller[RequestT]:
        """Make a controller whose requests go to the queue of their cluster."""
        manager = self._manager
        metrics = manager.controller_metrics
        shared = self._parts(name, settings)
        reconciler = DropGoneCluster(reconciler)

        def queue_of(cluster: str) -> PriorityQueue[Any] | None:
            return controller.queue if cluster == LOCAL_NAME else clusters.queue_of(cluster)

        def queue(cluster: str) -> ClusterQueue[RequestT]:
            return ClusterQueue(
                cluster,
                queue_of,
                limiter=settings.limiter(),
                ageing=settings.ageing,
                observer=metrics.controller(name, settings.workers, cluster),
            )

        def part(cluster: Cluster) -> ClusterController[RequestT]:
            here = {
                **shared,
                "logger": manager.logger.bind(cluster=cluster.name),
                "metrics": metrics.controller(name, settings.workers, cluster.name),
            }
            sources = self._make_sources(cluster.cache, cluster.name, None)
            made: ClusterController[RequestT] = ClusterController(
                name,
                **self._of_cluster(reconciler, cluster.cache, cluster.name, sources),
                sources=sources,
                queue=queue(cluster.name),
                gate=self._gate(own=False),
                **here,
            )
            metrics.watch_queue(name, made.queue.core, cluster.name)
            return made

        clusters = ClusterControllers(
            lambda cluster: any(includes(ref, cluster) for ref in self._clusters()),
            part,
            on_end=lambda cluster, ended: metrics.unwatch_queue(name, ended.core, cluster),
        )
        sources = self._make_sources(manager.cache, LOCAL_NAME, settings.cache_sync_timeout)
        controller: Controller[RequestT] = Controller(
            name,
            **self._of_cluster(reconciler, manager.cache, LOCAL_NAME, sources),
            sources=[*sources, *self._sources],
            permissions=self._needed(),
            primary=None if self._primary is None else self._primary.kind,
            queue=queue(LOCAL_NAME),
            clusters=clusters,
            gate=self._gate(),
            **shared,
        )
        return controller

    def _parts(self, name: str, settings: Settings) -> dict[str, Any]:
        """Return what a controller has in common in all its clusters."""
        manager = self._manager
        mapping = self._primary_mapping
        return {
            "settings": settings,
            "kind": None if mapping is None else mapping.gvk.group_kind,
            "metrics": manager.controller_metrics.controller(name, settings.workers),
            "logger": manager.logger,
            "tracing": manager.tracing,
            "pace": manager.pace,
        }

    def _of_cluster(
        self,
        reconciler: Reconciler[RequestT],
        cache: Cache,
        cluster: str,
        sources: Sequence[KindSource],
    ) -> dict[str, Any]:
        """Return what works for the objects of a cluster; the source of the primary kind is the first."""
        if self._primary is None or not includes(self._primary.cluster, cluster):
            return {"reconciler": reconciler}
        every, daemon, entry_of = self._every, self._daemon, sources[0].entry_of
        daemons = None if daemon is None else ObjectDaemons(daemon, entry_of, cluster=cluster)
        return {
            "reconciler": self._of_objects(reconciler, cache, cluster, sources, daemons),
            "timer": None if every is None else ObjectTimer(every, entry_of),
            "daemons": daemons,
        }

    def _of_objects(
        self,
        reconciler: Reconciler[RequestT],
        cache: Cache,
        cluster: str,
        sources: Sequence[KindSource],
        daemons: ObjectDaemons | None,
    ) -> Reconciler[RequestT]:
        """Wrap the reconciler in what it has of the primary kind's objects, where that kind is watched.

        Unconfirmed writes are read back first; then what was remembered of the object is compared.
        """
        mapping = self._primary_mapping
        if self._primary is None or mapping is None or not includes(self._primary.cluster, cluster):
            return reconciler
        of_primary = cast("Reconciler[Request]", reconciler)  # for_() takes no other
        if self._keep_old:
            of_primary = LastReconciled(of_primary, sources[0].entry_of, cluster=cluster)
        if daemons is not None:
            of_primary = WithDaemons(of_primary, daemons)
        return cast(
            "Reconciler[RequestT]",
            RefreshUnconfirmed(of_primary, cache, mapping, cluster=cluster),
        )

    def _clusters(self) -> list[ClusterRef]:
        """Return the clusters of each watch."""
        watches = [*([self._primary] if self._primary is not None else []), *self._watches]
        return [watch.cluster for watch in watches]

    def _is_single(self) -> bool:
        return all(normalized(ref) is ClusterSet.LOCAL for ref in self._clusters())

    def _derive(self, cluster: ClusterRef, needed: Iterable[permissions.Permission]) -> None:
        """Keep what the manager's role needs: rights in other clusters are no part of it."""
        if includes(cluster, LOCAL_NAME):
            self._derived += needed

    def _needed(self) -> tuple[permissions.Permission, ...]:
        derived = list(self._derived)
        if self._primary is not None and includes(self._primary.cluster, LOCAL_NAME):
            for owned in self._owned:
                derived += owned.needed
        if self._declares_writes:
            derived = permissions.followed(derived)
        return permissions.combine([*derived, *self._permissions])

    def _check(self) -> str:
        if self._built:
            raise BuilderError("build() was called twice: use one builder for each controller")
        if self._owned and self._primary is None:
            raise BuilderError("owns() needs for_(): owned objects lead to an owner of that kind")
        for owned in self._owned:
            self._check_owned_cluster(owned)
        if self._primary is None and not self._watches and not self._sources:
            raise BuilderError(
                "nothing is watched: call for_(), watches() or watches_raw() before build()"
            )
        if self._name:
            return self._name
        if self._primary_mapping is None:
            raise BuilderError("a controller without for_() needs a name: call named()")
        return self._primary_mapping.gvk.kind.lower()

    def _check_owned_cluster(self, owned: DeclaredOwned) -> None:
        primary = ClusterSet.LOCAL if self._primary is None else self._primary.cluster
        if owned.cluster is not None and normalized(owned.cluster) != normalized(primary):
            raise BuilderError(
                f"owns({gvk_of(owned.kind)}) names another cluster than for_(): owner references do not cross "
                "clusters; use watches(..., enqueue_map_func(fn, cluster=...), cluster=...)"
            )

    def _check_functions(self, name: str, reconciler: object) -> None:
        """Raise BuilderError for functions that could only fail later, or never be awaited."""
        watches = [*([self._primary] if self._primary is not None else []), *self._watches]
        predicates = [*self._filters]
        for watch in watches:
            predicates += watch.predicates
        for owned in self._owned:
            predicates += owned.predicates
        try:
            check_reconciler(reconciler)
            for watch in watches:
                check_synchronous(watch.handler, "a handler")
            for predicate in predicates:
                check_synchronous(predicate, "a predicate")
        except TypeError as error:
            raise BuilderError(f"controller {name!r}: {error}") from None

    def _check_field_managers(self) -> None:
        """Raise BuilderError for a kind that a Control could not compare.

        Without the field manager's own fields each of its reconciles would write each object. An owned kind
        needs a track_manager; a watched one may be without, since most are only read.
        """
        known = self._manager.cache.field_managers
        if not known:
            return
        of_owned = ClusterSet.LOCAL if self._primary is None else self._primary.cluster
        for owned in self._owned:
            if includes(of_owned, LOCAL_NAME):
                check_tracked("owns", owned.kind, owned.options["track_manager"], known)
        for watch in self._watches:
            if includes(watch.cluster, LOCAL_NAME):
                check_tracked("watches", watch.kind, watch.options["track_manager"] or "", known)

    def _enqueue_owner(
        self, kind: KindRef, controller_only: bool, cache: Cache
    ) -> Handler[Any, Any]:
        if mapping_of(kind) is not None:
            return enqueue_owner(kind, controller_only=controller_only)
        return enqueue_owner(
            kind,
            controller_only=controller_only,
            mapping=lambda: cache.informer(kind).mapping,  # as discovery has it by then
        )

    def _make_sources(
        self, cache: Cache, cluster: str, sync_timeout: float | None
    ) -> list[KindSource]:
        """Declare the kinds that are watched in a cluster to its cache; the primary one is the first."""
        watches = [self._primary] if self._primary is not None else []
        divides = self._is_sharded and not self._cached_whole
        if watches and self._slot_of is slot_of_request and divides:
            report = reporting_mislabelled(self._manager.logger, planned_mapping(watches[0].kind))
            watches[0] = replace(watches[0], predicates=(*watches[0].predicates, report))
        divided = len(watches) + len(self._owned) if divides else 0
        for owned in self._owned:
            assert self._primary is not None  # noqa: S101 - _check() has seen to it
            handler = self._enqueue_owner(self._primary.kind, owned.controller_only, cache)
            watches.append(
                DeclaredWatch(
                    owned.kind, handler, owned.predicates, owned.options, self._primary.cluster
                )
            )
        watches += self._watches
        return [
            KindSource(
                cache,
                watch.kind,
                watch.handler,
                predicates=self._predicates(watch, is_primary=number == 0),
                sync_timeout=sync_timeout,
                cluster=cluster,
                sharded=True if number < divided else None,
                **watch.options,
            )
            for number, watch in enumerate(watches)
            if includes(watch.cluster, cluster)
        ]

    def _predicates(self, watch: DeclaredWatch, *, is_primary: bool) -> tuple[Predicate, ...]:
        """Return what lets events of a watch through. With daemons, each object that goes leads to a pass."""
        both = (*self._filters, *watch.predicates)
        return tuple(map(or_goes, both)) if is_primary and self._daemon is not None else both
