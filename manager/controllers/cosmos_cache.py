"""What all nodes last said, wired to the runtime."""

from apis.cosmos import CosmosFullNode
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller import Builder, ControllerOptions
from ctrlruntime.controller.predicates import more_than_own_status_changed
from ctrlruntime.lifecycle.owner_index import OF_OWNER
from internal.cosmos.cache import pods
from internal.cosmos.cache.cosmos_cache import CacheOptions, CosmosCache
from internal.cosmos.cache.reconciler import CacheReconciler
from manager.controllers.cosmos_parts import POD, CosmosParts
from manager.controllers.slot_memory import forget_with_slots

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
        now=options.now,
    )
    builder = (
        Builder(manager)
        .sharded(cached_whole=True)
        .named(NAME)
        .for_(CosmosFullNode, predicates=[more_than_own_status_changed])
        .explicit_permissions()  # none
        .options(ControllerOptions(max_concurrent_reconciles=CONCURRENCY))
    )
    parts.objects.watch_owned(builder, CosmosFullNode, POD, predicates=[pods.matters])
    builder.build(CacheReconciler(parts.node_sets.informer.store, cache))
    manager.add(cache)
    forget_with_slots(manager, cache.followed, lambda each: cache.forget(each.namespace, each.name))
    return cache
