"""The controller of regular snapshots, wired to the runtime."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Self

from apis.cosmos import GROUP, CosmosFullNode, ScheduledVolumeSnapshot
from ctrlruntime.api import BUILTIN, GroupVersionKind, RESTMapping
from ctrlruntime.cache import DeleteEvent, Event, Informer, InformerHandle, Store, UpdateEvent
from ctrlruntime.cache.entry import Entry, annotation_value, label_value
from ctrlruntime.controller import Builder, ControllerOptions, enqueue_map_func
from ctrlruntime.controller.predicates import entries_of, more_than_own_status_changed
from ctrlruntime.controller.request_source import RequestSource
from ctrlruntime.controller.slot_gate import requests_of
from ctrlruntime.lifecycle.owner_index import recorded_owner
from ctrlruntime.queue import Request
from ctrlruntime.resources import OWNER, OWNER_UID
from ctrlruntime.resources.kept_metadata import KeptMetadata
from ctrlruntime.sharding import slot_of
from internal.cosmos.cache.observation import Observations
from internal.cosmos.labels import FIELD_MANAGER, SOURCE
from internal.cosmos.snapshots.facts_reader import (
    OF_SET,
    OWNER_UIDS,
    OWNERS,
    PAUSES,
    SOURCES,
    World,
    pauses_of,
    set_of,
)
from internal.cosmos.snapshots.metrics import SnapshotMetrics
from internal.cosmos.snapshots.naming import pause_key, schedule_of
from internal.cosmos.snapshots.reconciler import SnapshotReconciler, SnapshotWriters
from internal.cosmos.volumesnapshots import DEFINITION, VOLUME_SNAPSHOT, VOLUME_SNAPSHOT_CLASS
from internal.cosmos.volumesnapshots import GROUP as SNAPSHOT_GROUP
from manager.controllers.cosmos_parts import POD, SELECTED, CosmosParts
from manager.controllers.cosmos_wiring import (
    absence_of,
    absence_of_class,
    enqueue_at_definitions,
    enqueue_at_jumps,
)
from manager.controllers.slot_memory import forget_with_slots

CRD: RESTMapping = BUILTIN[
    GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
]
CONCURRENCY = 10
"""ScheduledVolumeSnapshots worked on at once."""


def add_snapshots(parts: CosmosParts, observations: Observations) -> None:
    """Add the controller of ScheduledVolumeSnapshots. Its clock is that of the options."""
    manager = parts.manager
    schedules = manager.cache.declare(ScheduledVolumeSnapshot, indexes={OF_SET: set_of})
    served = SnapshotsServed.of(parts)
    parts.node_sets.informer.store.add_index(PAUSES, pauses_of)
    store = parts.snapshots.informer.store
    store.add_index(SOURCES, label_value(SOURCE))
    store.add_index(OWNERS, annotation_value(OWNER))
    store.add_index(OWNER_UIDS, annotation_value(OWNER_UID))
    wakeups = _wakeups(parts, observations, schedules)
    reconciler = _reconciler(parts, observations, schedules, served)
    _build(parts, reconciler, schedules, wakeups)
    forget = reconciler.metrics.forget
    schedules.informer.add_handler(
        lambda event: forget(request_of(event.old)) if isinstance(event, DeleteEvent) else None
    )
    kept = partial(requests_of, parts.manager.cache, ScheduledVolumeSnapshot)
    forget_with_slots(parts.manager, kept, forget, slot_of_schedules(parts, schedules))


@dataclass(frozen=True, slots=True)
class SnapshotsServed:
    """Whether there are VolumeSnapshots in the cluster of the objects."""

    snapshots: Informer
    definitions: InformerHandle | None
    """Its CRDs; None for a hub, of which no CRD is read: there the kind is looked for again and again."""

    @classmethod
    def of(cls, parts: CosmosParts) -> Self:
        """Declare what is read."""
        local = not parts.objects.is_hub
        definitions = parts.manager.cache.declare(CRD, metadata_only=True) if local else None
        return cls(parts.snapshots.informer, definitions)

    def is_defined(self) -> bool:
        """Whether they are defined, be they served yet or not; on a hub they may be at any time."""
        if self.definitions is None:
            return True
        found = self.definitions.informer.store.get(DEFINITION, namespace="")
        return found is not None and found.deletion_timestamp is None

    def is_served(self) -> bool:
        """Whether they are served, and have been read."""
        readable = self.snapshots.missing_since is None and self.snapshots.readable
        return readable and self.is_defined()


def follow_definitions(builder: Builder[Request], parts: CosmosParts, store: Store) -> None:
    """Have a controller follow the definition of VolumeSnapshots, and enqueue all of its objects when that changes."""
    if not parts.objects.is_hub:
        handler = enqueue_at_definitions(parts.manager, store)
        builder.watches(CRD, handler, metadata_only=True, predicates=[defines_snapshots])


def slot_of_schedules(parts: CosmosParts, schedules: InformerHandle) -> Callable[[Request], int]:
    """Return a function that returns the slot of a ScheduledVolumeSnapshot: that of its set, whose manager polls the nodes.

    Of one that is gone, that of a set with a node down for it. Where the reference changes, a pass that runs may end beside
    the first one of the other manager: each step is in the status, under its version, before it is taken.
    """
    found, sets = schedules.informer.store, parts.node_sets.informer.store

    def slot(request: Request) -> int:
        name, namespace = request.name, request.namespace
        entry = found.get(name, namespace=namespace)
        if entry is None:
            down = sets.by_index(PAUSES, pause_key(namespace, name))
            return slot_of(min((each.name for each in down), default=name), namespace=namespace)
        of = "".join(set_of(entry)).partition("/")[2]
        return slot_of(of or name, namespace=namespace)

    return slot


def request_of(entry: Entry) -> Request:
    """Return the request of an object."""
    return Request(entry.name, namespace=entry.namespace)


def _reconciler(
    parts: CosmosParts,
    observations: Observations,
    schedules: InformerHandle,
    served: SnapshotsServed,
) -> SnapshotReconciler:
    manager, store = parts.manager, schedules.informer.store
    control = parts.objects.control(store)
    kept = KeptMetadata(parts.objects.cluster.client, VOLUME_SNAPSHOT, field_manager=FIELD_MANAGER)
    parts.snapshots.informer.add_handler(kept.observe)
    return SnapshotReconciler(
        world=World(
            node_sets=parts.node_sets.informer.store,
            pods=parts.pods.informer.store,
            snapshots=parts.snapshots.informer.store,
            observations=observations,
            control=control,
            is_defined=served.is_defined,
            is_served=served.is_served,
            is_gone=absence_of(parts.objects.live_client, POD),
            claims=parts.claims.informer.store,
            lacks_class=absence_of_class(parts.objects.live_client, VOLUME_SNAPSHOT_CLASS),
            hub=parts.objects.view(),
        ),
        writers=SnapshotWriters(node_sets=parts.statuses, snapshots=control, kept=kept),
        recorder=manager.recorder,
        metrics=SnapshotMetrics(manager.metrics.registry),
        clock=parts.options.clock.now,
    )


def _wakeups(
    parts: CosmosParts, observations: Observations, schedules: InformerHandle
) -> RequestSource:
    wakeups, store = RequestSource("nodes in sync, and the clock"), schedules.informer.store

    def nodes_changed(node_set: Request) -> None:
        for entry in store.by_index(OF_SET, f"{node_set.namespace}/{node_set.name}"):
            wakeups.enqueue(Request(entry.name, namespace=entry.namespace), "nodes in sync changed")

    observations.subscribe(nodes_changed)
    enqueue_at_jumps(parts, store, wakeups)
    return wakeups


def _build(
    parts: CosmosParts,
    reconciler: SnapshotReconciler,
    schedules: InformerHandle,
    wakeups: RequestSource,
) -> None:
    store = schedules.informer.store

    def of_set(key: str) -> Iterable[Request]:
        return [
            Request(entry.name, namespace=entry.namespace) for entry in store.by_index(OF_SET, key)
        ]

    def of_node_set(entry: Entry) -> Iterable[Request]:
        """Those for this set, and those that it has a node down for, though they may be gone."""
        names = (schedule_of(key, entry.namespace) for key in pauses_of(entry))
        paused = {Request(name, namespace=entry.namespace) for name in names if name}
        return paused | set(of_set(f"{entry.namespace}/{entry.name}"))

    def of_pod(entry: Entry) -> Iterable[Request]:
        owners = parts.objects.owner_index(entry)
        return [each for owner in owners for each in of_set(owner.partition("/")[2])]

    plural = ScheduledVolumeSnapshot.mapping().plural

    def roots() -> Iterable[Request]:
        return {
            *requests_of(parts.manager.cache, ScheduledVolumeSnapshot),
            *(each for found in parts.node_sets.informer.store for each in of_node_set(found)),
        }

    builder = (
        Builder(parts.manager)
        .sharded(slot=slot_of_schedules(parts, schedules), cached_whole=True, roots=roots)
        .for_(ScheduledVolumeSnapshot, predicates=[more_than_own_status_changed])
        .watches(CosmosFullNode, enqueue_map_func(of_node_set), predicates=[pauses_or_spec_changed])
        .watches_raw(wakeups)
        .explicit_permissions()
        .permission(GROUP, plural, "patch")  # the finalizer
        .permission(GROUP, f"{plural}/status", "patch")
        .permission(GROUP, "cosmosfullnodes", "get")  # their status, live
        .permission(GROUP, "cosmosfullnodes/status", "patch")  # nodes that are down
        .permission("", "pods", "get")  # whether one has really ended
        .permission(SNAPSHOT_GROUP, VOLUME_SNAPSHOT.plural, "create", "delete", "patch")
        .permission(SNAPSHOT_GROUP, VOLUME_SNAPSHOT_CLASS.plural, "get")  # before a node is stopped
        .options(ControllerOptions(max_concurrent_reconciles=CONCURRENCY))
    )
    watch = parts.objects.watch
    watch(builder, POD, of_pod, labels=SELECTED, predicates=[comes_or_goes])
    watch(builder, VOLUME_SNAPSHOT, of_snapshot, optional=True)
    follow_definitions(builder, parts, store)
    builder.build(parts.reconciler(reconciler.lifecycle, schedules.informer))


def of_snapshot(entry: Entry) -> Iterable[Request]:
    """Return the ScheduledVolumeSnapshot that a VolumeSnapshot is recorded to belong to."""
    return recorded_owner(ScheduledVolumeSnapshot, entry)


def pauses_or_spec_changed(event: Event) -> bool:
    """Predicate: blocks the rest of the status of a set of nodes: heights come every minute."""
    if not isinstance(event, UpdateEvent):
        return True
    told = [
        (each.uid, each.generation, each.deletion_timestamp, pauses_of(each))
        for each in entries_of(event)
    ]
    return told[0] != told[-1]


def comes_or_goes(event: Event) -> bool:
    """Predicate: a Pod that is new, is to end, or has ended."""
    if not isinstance(event, UpdateEvent):
        return True
    old, new = event.old, event.new
    return (old.uid, old.deletion_timestamp) != (new.uid, new.deletion_timestamp)


def defines_snapshots(event: Event) -> bool:
    """Predicate: the definition of VolumeSnapshots."""
    return any(entry.name == DEFINITION for entry in entries_of(event))
