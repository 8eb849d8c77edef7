"""The ChangeFreezes that a system honours, wired to the runtime."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from apis.operations import GROUP, ChangeFreeze, FrozenSystem
from ctrlruntime.cache import Entry, InformerHandle
from ctrlruntime.clock import utc_now
from ctrlruntime.controller.builder import Builder
from ctrlruntime.controller.predicates import more_than_own_status_changed
from ctrlruntime.controller.request_source import RequestSource
from ctrlruntime.manager import Manager
from ctrlruntime.queue import Request
from internal.operations.freezes import SystemFreezes
from internal.operations.metrics import FreezeMetrics
from internal.operations.reconciler import FreezeReconciler

FIELD_MANAGER: Final = "change-freezes"
SYNC_TIMEOUT: Final = 10.0
"""Seconds that the start waits for the first list. Without it the manager runs, and every change is held."""
_HELD_INDEX: Final = "changes-held"
"""Objects that managers share and of which a freeze may hold changes, under `_HELD`."""
_HELD: Final = "held"
STATUS_PERIOD: Final = 5.0
"""Seconds between the change of a count and the pass that writes it, with those that follow too."""


@dataclass(frozen=True, slots=True)
class Divided:
    """A kind whose objects several managers share."""

    kind: InformerHandle
    held: Callable[[Entry], int]
    """Returns how many changes of an object a freeze holds, by what it shows."""
    may: Callable[[Entry], object] | None = None
    """Whether that can be any before the object changes; None: `held`, which no time changes."""


def add_change_freezes(
    manager: Manager,
    system: FrozenSystem,
    *,
    divided: Sequence[Divided] = (),
) -> SystemFreezes:
    """Watch ChangeFreezes for one system, and return what its controllers have to honour.

    `divided`: kinds that several managers share: the leader counts by what their objects show.
    """
    handle = manager.cache.declare(ChangeFreeze, optional=True, sync_timeout=SYNC_TIMEOUT)
    informer = handle.informer
    freezes = SystemFreezes(system, informer, utc_now, needs_leader_election=not divided)
    if divided:
        freezes.reported = partial(_reported, divided)
    for each in divided:
        may, timed = each.may or each.held, each.may is not None
        each.kind.informer.store.add_index(_HELD_INDEX, partial(_indexed, may))
        each.kind.informer.add_handler(partial(freezes.report_changed, each.held, timed))
    informer.add_handler(freezes.freeze_changed)
    informer.add_served_handler(lambda _served: freezes.served_changed())
    manager.add(freezes)
    _add_controller(manager, freezes, handle)
    return freezes


def _indexed(may: Callable[[Entry], object], entry: Entry) -> Sequence[str]:
    return (_HELD,) if may(entry) else ()


def _reported(divided: Sequence[Divided]) -> Iterator[tuple[str, int]]:
    """Return the namespace of each object that may be held, and how many changes of it are."""
    for each in divided:
        for entry in each.kind.informer.store.by_index(_HELD_INDEX, _HELD):
            yield entry.namespace, each.held(entry)


def _add_controller(manager: Manager, freezes: SystemFreezes, handle: InformerHandle) -> None:
    """Add the controller of the freezes' status: one for each system, which writes the counts of that system."""
    store, counts = handle.informer.store, RequestSource("changes that are held")

    def count_again() -> None:
        for entry in store:
            counts.enqueue(Request(entry.name), "other changes are held", after=STATUS_PERIOD)

    freezes.on_counts = count_again
    metrics = FreezeMetrics.of(manager.metrics.registry)
    reconciler = FreezeReconciler(freezes, utc_now, metrics).lifecycle.reconciler(
        manager, informer=handle.informer, field_manager=FIELD_MANAGER
    )
    (
        Builder(manager)
        .for_(ChangeFreeze, predicates=[more_than_own_status_changed], optional=True)
        .named(f"changefreeze-{freezes.system.value.lower()}")
        .explicit_permissions()
        .permission(GROUP, "changefreezes/status", "patch")
        .watches_raw(counts)
        .build(reconciler)
    )
