"""Puts a controller together and adds it to a manager."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.api.resource import KindRef
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller import permissions
from ctrlruntime.controller.controller import Controller
from ctrlruntime.controller.doubt import DoubtSettling
from ctrlruntime.controller.handlers import enqueue_owner, enqueue_self, known_mapping
from ctrlruntime.controller.intake import Handler
from ctrlruntime.controller.metrics import ControllerMetrics
from ctrlruntime.controller.options import ControllerOptions, merged
from ctrlruntime.controller.pace import Pace
from ctrlruntime.controller.predicates import Predicate
from ctrlruntime.controller.reconcile import FuncReconciler, ReconcileFunc, Reconciler
from ctrlruntime.controller.sources import KindSource, Source
from ctrlruntime.queue import QueueCore
from ctrlruntime.tracing import Tracing

if TYPE_CHECKING:
    from ctrlruntime.cache.cache import Cache

Indexes = Mapping[str, Callable[[Entry], Iterable[str]]]


class MetricsRegistry(Protocol):
    """Where a controller's series live."""

    def controller(self, name: str, workers: int) -> ControllerMetrics: ...

    def watch_queue(self, name: str, queue: QueueCore) -> None: ...


class ControllerHost(Protocol):
    """What a builder needs of a manager."""

    @property
    def cache(self) -> Cache: ...
    @property
    def controller_defaults(self) -> ControllerOptions: ...
    @property
    def controller_metrics(self) -> MetricsRegistry: ...
    @property
    def logger(self) -> FilteringBoundLogger: ...
    @property
    def tracing(self) -> Tracing: ...
    @property
    def pace(self) -> Pace: ...
    def claim_controller_name(self, name: str) -> None: ...
    def add(self, runnable: Controller, /) -> None: ...


class BuilderError(ValueError):
    """The parts given do not make a controller."""


@dataclass(slots=True)
class _Watch:
    kind: KindRef
    handler: Handler
    predicates: tuple[Predicate, ...]
    options: dict[str, Any] = field(default_factory=dict)


class Builder:
    """Declares what a controller watches, then builds it::

        Builder(manager).for_(Tenant).owns(CONFIG_MAP).build(reconciler)

    Every method but :meth:`build` returns the builder.
    """

    def __init__(self, manager: ControllerHost) -> None:
        self._manager = manager
        self._primary: _Watch | None = None
        self._primary_mapping: RESTMapping | None = None
        self._owned: list[tuple[KindRef, bool, tuple[Predicate, ...], dict[str, Any]]] = []
        self._watches: list[_Watch] = []
        self._sources: list[Source] = []
        self._filters: list[Predicate] = []
        self._derived: list[permissions.Permission] = []
        self._permissions: list[permissions.Permission] = []
        self._declares_writes = False
        self._name = ""
        self._options = ControllerOptions()
        self._built = False

    def for_(
        self,
        kind: KindRef,
        *,
        predicates: Sequence[Predicate] = (),
        metadata_only: bool = False,
        namespaces: Collection[str] | None = None,
        labels: str | None = None,
        fields: str | None = None,
        indexes: Indexes | None = None,
        optional: bool = False,
    ) -> Builder:
        """The primary kind: its objects are what is reconciled. Only once."""
        if self._primary is not None:
            raise BuilderError("for_() was called twice: a controller has one primary kind")
        self._primary_mapping = known_mapping(kind)
        options = {
            "metadata_only": metadata_only,
            "namespaces": namespaces,
            "labels": labels,
            "fields": fields,
            "indexes": indexes,
            "optional": optional,
        }
        self._primary = _Watch(kind, enqueue_self, tuple(predicates), options)
        self._derived += permissions.of_primary(self._primary_mapping)
        return self

    def owns(
        self,
        kind: KindRef,
        *,
        controller_only: bool = True,
        predicates: Sequence[Predicate] = (),
        metadata_only: bool = False,
        namespaces: Collection[str] | None = None,
        labels: str | None = None,
        track_manager: str | None = None,
        indexes: Indexes | None = None,
        optional: bool = False,
    ) -> Builder:
        """A kind the primary creates: events lead to the owner named in its owner references."""
        options = {
            "metadata_only": metadata_only,
            "namespaces": namespaces,
            "labels": labels,
            "track_manager": track_manager,
            "indexes": indexes,
            "optional": optional,
        }
        self._owned.append((kind, controller_only, tuple(predicates), options))
        self._derived += permissions.of_owned(known_mapping(kind))
        return self

    def watches(
        self,
        kind: KindRef,
        handler: Handler,
        *,
        predicates: Sequence[Predicate] = (),
        metadata_only: bool = False,
        namespaces: Collection[str] | None = None,
        labels: str | None = None,
        fields: str | None = None,
        track_manager: str | None = None,
        indexes: Indexes | None = None,
        optional: bool = False,
    ) -> Builder:
        """Any kind, with a handler that says which requests its events lead to."""
        options = {
            "metadata_only": metadata_only,
            "namespaces": namespaces,
            "labels": labels,
            "fields": fields,
            "track_manager": track_manager,
            "indexes": indexes,
            "optional": optional,
        }
        self._watches.append(_Watch(kind, handler, tuple(predicates), options))
        self._derived += permissions.of_read(known_mapping(kind), metadata_only=metadata_only)
        return self

    def watches_source(self, source: Source) -> Builder:
        """A source made elsewhere; the event filter does not apply to it."""
        self._sources.append(source)
        return self

    def event_filter(self, predicate: Predicate) -> Builder:
        """A predicate for every watch, before the watch's own. May be called several times."""
        self._filters.append(predicate)
        return self

    def permission(self, group: str, plural: str, *verbs: str) -> Builder:
        """Declares a right the reconciler needs beyond what its watches tell."""
        self._permissions.append((group, plural, verbs))
        return self

    def declares_writes(self) -> Builder:
        """Every right but to follow what is watched is declared by :meth:`permission`.

        For roles without a verb too many: what a reconciler writes is not known otherwise, so that
        it gets every way to write the kinds it is for and owns. `get` is declared as well where
        objects are read one by one past the cache; informers list and watch.
        """
        self._declares_writes = True
        return self

    def named(self, name: str) -> Builder:
        """The controller's name; by default the primary kind in lower case."""
        self._name = name
        return self

    def options(self, options: ControllerOptions) -> Builder:
        """Options of this controller; they win over the manager's."""
        self._options = options
        return self

    def build(self, reconciler: Reconciler | ReconcileFunc) -> Controller:
        """Makes the controller, declares its kinds to the cache and adds it to the manager.

        ``reconciler`` has a coroutine method ``reconcile`` or is a coroutine function itself.
        Raises BuilderError when parts are missing or do not fit.
        """
        name = self._check()
        manager = self._manager
        group_kind = None if self._primary_mapping is None else self._primary_mapping.gvk.group_kind
        settings = merged(self._options, manager.controller_defaults, group_kind)
        if not settings.skip_name_validation:
            manager.claim_controller_name(name)
        if not isinstance(reconciler, Reconciler):
            if not callable(reconciler):
                raise BuilderError(f"controller {name!r} needs a reconciler, not {reconciler!r}")
            reconciler = FuncReconciler(reconciler)
        if self._primary_mapping is not None:
            reconciler = DoubtSettling(reconciler, manager.cache, self._primary_mapping)
        controller = Controller(
            name,
            reconciler,
            settings=settings,
            kind=group_kind,
            sources=self._make_sources(),
            metrics=manager.controller_metrics.controller(name, settings.workers),
            logger=manager.logger,
            tracing=manager.tracing,
            pace=manager.pace,
            permissions=self._needed(),
        )
        manager.controller_metrics.watch_queue(name, controller.queue.core)
        manager.add(controller)
        self._built = True
        return controller

    def _needed(self) -> tuple[permissions.Permission, ...]:
        derived = self._derived
        if self._declares_writes:
            derived = permissions.followed(derived)
        return permissions.combine([*derived, *self._permissions])

    def _check(self) -> str:
        if self._built:
            raise BuilderError("build() was called twice: use one builder for each controller")
        if self._owned and self._primary is None:
            raise BuilderError("owns() needs for_(): owned objects lead to an owner of that kind")
        if self._primary is None and not self._watches and not self._sources:
            raise BuilderError(
                "nothing is watched: call for_(), watches() or watches_source() before build()"
            )
        if self._name:
            return self._name
        if self._primary_mapping is None:
            raise BuilderError("a controller without for_() needs a name: call named()")
        return self._primary_mapping.gvk.kind.lower()

    def _make_sources(self) -> list[Source]:
        watches = [self._primary] if self._primary is not None else []
        for kind, controller_only, predicates, options in self._owned:
            assert self._primary is not None  # noqa: S101 - _check() has seen to it
            handler = enqueue_owner(self._primary.kind, controller_only=controller_only)
            watches.append(_Watch(kind, handler, predicates, options))
        watches += self._watches
        sources: list[Source] = [
            KindSource(
                self._manager.cache,
                watch.kind,
                watch.handler,
                predicates=(*self._filters, *watch.predicates),
                **watch.options,
            )
            for watch in watches
        ]
        return sources + self._sources
