"""The ChangeFreezes that a system honours, wired to the runtime."""

from collections.abc import Callable
from typing import Final

from apis.operations import GROUP, ChangeFreeze, FrozenSystem
from ctrlruntime.cache.cache import InformerHandle
from ctrlruntime.cache.entry import Entry
from ctrlruntime.clock import utc_now
from ctrlruntime.controller.builder import Builder
from ctrlruntime.controller.predicates import more_than_own_status_changed
from ctrlruntime.controller.request_source import RequestSource
from ctrlruntime.manager import Manager
from ctrlruntime.queue import Request
from internal.operations.freezes import SystemFreezes, frozen_of
from internal.operations.metrics import FreezeMetrics
from internal.operations.reconciler import FreezeReconciler

FIELD_MANAGER: Final = "change-freezes"
SYNC_TIMEOUT: Final = 10.0
"""Seconds that the start waits for the first list. Without it the manager runs, and every change is held."""
_FROZEN_INDEX: Final = "changes-frozen"
"""Of objects that managers share: how many changes of each a freeze holds."""
STATUS_PERIOD: Final = 5.0
"""Seconds between the change of a count and the pass that writes it, with those that follow too."""


def add_change_freezes(
    manager: Manager,
    system: FrozenSystem,
    *,
    divided: InformerHandle | None = None,
    frozen: Callable[[Entry], int] = frozen_of,
) -> SystemFreezes:
    """Watch ChangeFreezes for one system, and return what its controllers have to honour.

    `divided`: objects that several managers share. The leader counts what of each is held by its status then, with
    `frozen`.
    """
    handle = manager.cache.declare(ChangeFreeze, optional=True, sync_timeout=SYNC_TIMEOUT)
    informer = handle.informer
    freezes = SystemFreezes(system, informer, utc_now, needs_leader_election=divided is None)
    if divided is not None:
        objects = divided.informer.store
        objects.add_index(_FROZEN_INDEX, lambda entry: [str(n)] if (n := frozen(entry)) else [])
        freezes.reported = lambda: (
            (each.namespace, int(held))
            for held in objects.index_values(_FROZEN_INDEX)
            for each in objects.by_index(_FROZEN_INDEX, held)
        )
        freezes.frozen = frozen
        divided.informer.add_handler(freezes.report_changed)
    informer.add_handler(freezes.freeze_changed)
    informer.add_served_handler(lambda _served: freezes.served_changed())
    manager.add(freezes)
    _add_controller(manager, freezes, handle)
    return freezes


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
