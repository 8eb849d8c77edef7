"""What all nodes last said, wired to the runtime."""

from apis.cosmos import CosmosFullNode
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.selectors import label_text
from ctrlruntime.controller.builder import Builder
from ctrlruntime.controller.handlers import enqueue_owner
from ctrlruntime.controller.options import ControllerOptions
from ctrlruntime.controller.predicates import more_than_status_changed
from internal.cosmos.cache import pods
from internal.cosmos.cache.cosmos_cache import CacheOptions, CosmosCache
from internal.cosmos.cache.reconciler import CacheReconciler
from internal.cosmos.labels import FIELD_MANAGER
from manager.controllers.cosmos_parts import OF_OWNER, OURS, POD, CosmosParts, owner_index

NAME = "cosmoscache"
"""The controller's name: it has no kind of its own."""
CONCURRENCY = 10
"""Sets looked at at once; it takes no time but where one is gone."""


def add_cache(parts: CosmosParts) -> CosmosCache:
    """Add the cache and the controller that tells it whom to ask."""
    manager, options = parts.manager, parts.options
    store = parts.pods.informer.store

    def pods_of(namespace: str, name: str) -> list[Entry]:
        return store.by_index(OF_OWNER, f"{CosmosFullNode.gvk().kind}/{namespace}/{name}")

    cache = CosmosCache(
        pods_of,
        CacheOptions(
            interval=options.poll_seconds,
            deadline=options.poll_timeout_seconds,
            at_once=options.polls_at_once,
            disk_interval=options.disk_seconds,
        ),
        manager.metrics.registry,
    )
    (
        Builder(manager)
        .named(NAME)
        .for_(CosmosFullNode, predicates=[more_than_status_changed])
        .watches(
            POD,
            enqueue_owner(CosmosFullNode),
            labels=label_text(OURS),
            track_manager=FIELD_MANAGER,
            indexes={OF_OWNER: owner_index},
            predicates=[pods.matters],
        )
        .explicit_permissions()  # none
        .options(ControllerOptions(max_concurrent_reconciles=CONCURRENCY))
        .build(CacheReconciler(parts.node_sets.informer.store, cache))
    )
    manager.add(cache)
    return cache
