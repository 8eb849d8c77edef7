"""Self-healing of sets of nodes, wired to the runtime."""

from collections.abc import Callable
from functools import partial

from apis.cosmos import GROUP, CosmosFullNode
from ctrlruntime.api import BUILTIN, GroupVersionKind
from ctrlruntime.cache import Entry, InformerHandle
from ctrlruntime.controller import Builder, ControllerOptions
from ctrlruntime.controller.predicates import more_than_own_status_changed
from ctrlruntime.controller.request_source import RequestSource
from ctrlruntime.controller.slot_gate import requests_of
from ctrlruntime.lifecycle.owner_index import OF_OWNER
from internal.cosmos.cache.cosmos_cache import CosmosCache
from internal.cosmos.selfheal.disks import DiskHealing
from internal.cosmos.selfheal.events import Notes
from internal.cosmos.selfheal.hangs import HangHealing
from internal.cosmos.selfheal.heights import HeightHealing
from internal.cosmos.selfheal.metrics import SelfHealMetrics
from internal.cosmos.selfheal.reconciler import SelfHealReconciler
from internal.cosmos.workload.claims import StorageClasses
from manager.controllers.cosmos_parts import CosmosParts
from manager.controllers.error_status import UnprotectedOnly
from manager.controllers.slot_memory import forget_with_slots

NAME = "cosmosselfheal"
"""The controller's name: it has no kind of its own."""
CONCURRENCY = 10
"""Sets looked at at once."""
STORAGE_CLASS = BUILTIN[GroupVersionKind("storage.k8s.io", "v1", "StorageClass")]


def add_selfhealing(parts: CosmosParts, cache: CosmosCache) -> None:
    """Add the controller that mends sets of nodes. It looks again when nodes or disks said something new."""
    manager = parts.manager
    parts.objects.declare(STORAGE_CLASS)
    wakeups = RequestSource("what nodes and disks say")
    wake = partial(wakeups.enqueue, reason="what its nodes or disks say")
    cache.subscribe(wake)
    cache.subscribe_disks(wake)
    reconciler = _reconciler(parts, cache)
    (
        Builder(manager)
        .sharded(cached_whole=True)
        .named(NAME)
        .for_(CosmosFullNode, predicates=[more_than_own_status_changed])
        .watches_raw(wakeups)
        .explicit_permissions()
        .permission(GROUP, "cosmosfullnodes", "get")  # live, before a status is written
        .permission(GROUP, "cosmosfullnodes/status", "patch")
        .permission("", "pods", "list", "watch", "delete")
        .permission("", "persistentvolumeclaims", "list", "watch")
        .options(ControllerOptions(max_concurrent_reconciles=CONCURRENCY))
        .build(UnprotectedOnly(reconciler, manager.options.protected))
    )
    kept = partial(requests_of, manager.cache, CosmosFullNode)
    forget_with_slots(manager, kept, reconciler.forget)


def _reconciler(parts: CosmosParts, cache: CosmosCache) -> SelfHealReconciler:
    manager = parts.manager
    notes = Notes(manager.recorder)
    metrics = SelfHealMetrics(manager.metrics.registry)
    return SelfHealReconciler(
        node_sets=parts.node_sets.informer.store,
        disks=DiskHealing(
            usages=cache,
            pods_of=_of_set(parts.pods),
            claims_of=_of_set(parts.claims),
            expandable=StorageClasses(parts.objects.cache),
            statuses=parts.statuses,
            notes=notes,
            metrics=metrics,
            clock=parts.options.clock.now,
        ),
        heights=HeightHealing(
            observations=cache,
            pods_of=_of_set(parts.pods),
            workload=parts.workload,
            notes=notes,
            metrics=metrics,
            now=parts.options.now,
        ),
        hangs=HangHealing(
            nodes=cache,
            pods_of=_of_set(parts.pods),
            workload=parts.workload,
            notes=notes,
            metrics=metrics,
            now=parts.options.now,
        ),
        notes=notes,
        interval=parts.options.heal_seconds,
    )


def _of_set(handle: InformerHandle) -> Callable[[str, str], list[Entry]]:
    """Return what sets of nodes own of a kind."""
    store, kind = handle.informer.store, CosmosFullNode.gvk().kind
    return lambda namespace, name: store.by_index(OF_OWNER, f"{kind}/{namespace}/{name}")
