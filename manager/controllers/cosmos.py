"""The cosmos system's controllers, wired to the runtime."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from apis.cosmos import GROUP, CosmosFullNode
from apis.operations import FrozenSystem
from ctrlruntime.api import BUILTIN, GroupVersionKind, RESTMapping
from ctrlruntime.cache import Event, Store
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.clock import monotonic, utc_now
from ctrlruntime.controller import Builder, ControllerOptions
from ctrlruntime.controller.event_dispatch import EventQueue
from ctrlruntime.controller.orphan_requests import OrphanRequests
from ctrlruntime.controller.predicates import Predicate, entry_of
from ctrlruntime.controller.request_source import RequestSource
from ctrlruntime.lifecycle import PerUID
from ctrlruntime.manager import Manager
from ctrlruntime.queue import Request
from ctrlruntime.resources import Definitions
from ctrlruntime.rollout import ChangeHolds
from internal.approvals.counted import CountedEntries
from internal.approvals.key import ApprovalKey
from internal.cosmos.approvals import RULES as APPROVALS
from internal.cosmos.cache.observation import Observations
from internal.cosmos.datasource import DataSources
from internal.cosmos.fullnode.additional_pod_control import AdditionalPodControl
from internal.cosmos.fullnode.configmap_control import ConfigMapControl
from internal.cosmos.fullnode.desired_objects import CONFIG_MAP, DISRUPTION_BUDGET, ROLE, SECRET
from internal.cosmos.fullnode.disk_removals import RECORD
from internal.cosmos.fullnode.disruption_budget import DisruptionBudgetControl
from internal.cosmos.fullnode.ended_pods import EndedPods
from internal.cosmos.fullnode.memory import NodeSetMemory
from internal.cosmos.fullnode.metrics import NodeSetMetrics
from internal.cosmos.fullnode.node_key_collector import NodeKeyCollector
from internal.cosmos.fullnode.objects import Objects
from internal.cosmos.fullnode.peer_collector import PeerCollector
from internal.cosmos.fullnode.plain_control import (
    ACCESS,
    ACCOUNTS,
    SERVICES,
    PlainControl,
    PlainKind,
)
from internal.cosmos.fullnode.pod_control import PodControl
from internal.cosmos.fullnode.predicates import (
    more_than_heartbeats,
    node_set_changed,
    object_changed,
)
from internal.cosmos.fullnode.pvc_control import PVCControl
from internal.cosmos.fullnode.reconciler import (
    FullNodeReconciler,
    NodeSetOptions,
    NodeSetReads,
)
from internal.cosmos.fullnode.removal import Removal
from internal.cosmos.fullnode.status_writer import NodeSetStatusWriter
from internal.cosmos.fullnode.steps import Controls
from internal.cosmos.fullnode.upgrade_gate import Crossings
from internal.cosmos.labels import FIELD_MANAGER
from internal.cosmos.volumesnapshots import VOLUME_SNAPSHOT
from internal.cosmos.workload.claims import ClaimControl, StorageClasses
from internal.operations.freezes import frozen_of
from internal.removal_holds import LostRecords
from manager.controllers.approvals import add_approvals, approval_key
from manager.controllers.change_freezes import Divided, add_change_freezes
from manager.controllers.cosmos_cache import add_cache
from manager.controllers.cosmos_jobs import add_stateful_jobs
from manager.controllers.cosmos_options import CosmosOptions
from manager.controllers.cosmos_parts import (
    CLAIM,
    POD,
    SERVICE,
    CosmosParts,
    declare_parts,
)
from manager.controllers.cosmos_selfheal import add_selfhealing
from manager.controllers.cosmos_snapshots import CRD, add_snapshots
from manager.controllers.cosmos_wiring import guarded
from manager.controllers.slot_memory import forget_with_slots
from manager.controllers.slot_owners import add_slot_owners

if TYPE_CHECKING:
    from manager.controllers.hub import Hub

_RBAC: Final = ROLE.gvk.group
STORAGE_CLASS: Final = BUILTIN[GroupVersionKind("storage.k8s.io", "v1", "StorageClass")]

READ: Final = (POD, CLAIM, SERVICE, SECRET)
"""Kinds that are read, not only tracked: own Secrets hold the keys that ids of nodes come from."""
PREDICATES: Final[dict[RESTMapping, Predicate]] = {POD: more_than_heartbeats}
"""Where not every change matters."""


def access_of(parts: CosmosParts) -> tuple[PlainKind, ...]:
    """Return the kinds of what Pods run as, and what that may do.

    On the hub Pods have an account without rights: their set is not there, and none of them reads it.
    """
    return (ACCOUNTS,) if parts.objects.is_hub else ACCESS


def tracked_of(parts: CosmosParts) -> tuple[RESTMapping, ...]:
    """Return the kinds of which the metadata is all that is needed."""
    return (CONFIG_MAP, DISRUPTION_BUDGET, *(each.mapping for each in access_of(parts)))


def add_cosmos(
    manager: Manager, options: CosmosOptions, hub: Hub | None = None, webhooks: bool = False
) -> None:
    """Add the controllers of the cosmos system to a manager. From within its loop.

    `hub`: where objects are, if the manager's own cluster is a data plane. `webhooks`: whether this manager records
    who gives approvals.
    """
    parts = declare_parts(manager, options, hub)
    cache = add_cache(parts)
    wakeups = RequestSource("what nodes and disks say")
    cache.subscribe_disks(partial(wakeups.enqueue, reason="what its disks say"))
    add_node_sets(parts, cache, approval_key(manager) if webhooks else None, wakeups)
    add_selfhealing(parts, cache)
    add_snapshots(parts, cache)
    add_stateful_jobs(parts)
    add_slot_owners(
        parts.manager,
        CosmosFullNode,
        parts.node_sets.informer.store,
        parts.statuses.patcher,
        clock=parts.options.clock.now,
        noun="set",
        effect="Nothing of this set is changed, and its nodes are not polled; they run on.",
    )


@dataclass(frozen=True, slots=True)
class NodeSetHandlers:
    """Enqueues sets of nodes for what happens to other objects."""

    sets: Store
    wakeups: RequestSource
    waiting: Collection[Request]
    """Sets whose PVCs wait for a snapshot."""

    def hub_changed(self) -> None:
        """Enqueue all sets: the hub answers no longer, or again."""
        for request in self.all_sets():
            self.wakeups.enqueue(request, "the hub answers no longer, or again")

    def snapshot_changed(self, event: Event, queue: EventQueue) -> None:
        """Enqueue the sets whose PVCs may be filled from it now."""
        entry = entry_of(event)
        for request in list(self.waiting):
            if entry is not None and request.namespace == entry.namespace:
                queue.add(request)

    def set_crd_changed(self, _event: Event, queue: EventQueue) -> None:
        """Enqueue sets that are being deleted: they may have to be released now."""
        for entry in self.sets:
            if entry.deletion_timestamp is not None:
                queue.add(Request(entry.name, namespace=entry.namespace))

    def all_sets(self) -> list[Request]:
        """Return every set."""
        return [Request(each.name, namespace=each.namespace) for each in self.sets]


def add_node_sets(
    parts: CosmosParts,
    observations: Observations,
    key: ApprovalKey | None,
    wakeups: RequestSource,
) -> FullNodeReconciler:
    """Return the controller of sets of nodes.

    `observations`: what the nodes reported, from memory. `key`: of the records of approvals; None: none is recorded.
    `wakeups` enqueues sets.
    """
    manager, options = parts.manager, parts.options
    approvals = add_approvals(manager, CosmosFullNode, APPROVALS, key, divided=True)
    memory = NodeSetMemory(Crossings(monotonic, options.times.upgrade))
    handlers = NodeSetHandlers(parts.node_sets.informer.store, wakeups, memory.waiting)
    parts.objects.subscribe(handlers.hub_changed)
    shared = [] if manager.shards is None else [Divided(parts.node_sets, frozen_of)]
    freezes = add_change_freezes(manager, FrozenSystem.COSMOS, divided=shared)
    parts.node_sets.informer.add_handler(freezes.object_changed)
    holds = freezes.holder(
        partial(wakeups.enqueue, reason="a freeze began or ended"), handlers.all_sets, divided=True
    )
    reconciler = _reconciler(parts, observations, memory, holds, approvals.entries)
    observations.subscribe(partial(wakeups.enqueue, reason="what its nodes say"))
    builder = (
        Builder(manager)
        .sharded(cached_whole=True)
        .for_(CosmosFullNode, predicates=[node_set_changed])
        .watches(
            VOLUME_SNAPSHOT,
            handlers.snapshot_changed,
            track_manager=FIELD_MANAGER,
            optional=True,
            cluster=parts.objects.watched,
        )
        .watches(CRD, handlers.set_crd_changed, metadata_only=True, predicates=[defines_node_sets])
        .watches_raw(wakeups)
        .watches_raw(approvals.wakeups)
        .options(ControllerOptions(max_concurrent_reconciles=options.fullnode_concurrency))
    )
    _permit_writes(builder)
    _watch_owned(parts, builder)
    builder.build(guarded(parts, reconciler, handlers.sets, CosmosFullNode))
    forget_with_slots(manager, partial(_kept, handlers, memory), reconciler.forget)
    return reconciler


def _kept(handlers: NodeSetHandlers, memory: NodeSetMemory) -> set[Request]:
    """Return the sets that something may be kept in memory of: those that are gone were passed over once more, or are in it."""
    return {*handlers.all_sets(), *memory.created}


def _permit_writes(builder: Builder[Request]) -> None:
    """Declare what the controller of sets of nodes writes, and reads live."""
    (
        builder.explicit_permissions()
        .permission(GROUP, "cosmosfullnodes", "get")  # live, before a status is written
        .permission(GROUP, "cosmosfullnodes", "patch")  # the finalizer
        .permission(GROUP, "cosmosfullnodes/status", "patch")
        .permission(GROUP, "cosmosfullnodes/finalizers", "update")  # as owner of all of these
        .permission("", "pods", "create", "delete", "patch")
        .permission("", "persistentvolumeclaims", "get", "create", "delete", "patch")
        .permission("", "services", "create", "delete", "patch")
        .permission("", "configmaps", "create", "delete", "patch")
        .permission("", "secrets", "create", "patch")
        .permission("", "serviceaccounts", "create", "patch")
        .permission("policy", "poddisruptionbudgets", "create", "delete", "patch")
        .permission(_RBAC, "roles", "create", "patch")
        .permission(_RBAC, "rolebindings", "create", "patch")
    )


def _watch_owned(parts: CosmosParts, builder: Builder[Request]) -> None:
    tracked = tracked_of(parts)
    for mapping in (*READ, *tracked):
        parts.objects.watch_owned(
            builder,
            CosmosFullNode,
            mapping,
            metadata_only=mapping in tracked,
            predicates=[PREDICATES.get(mapping, object_changed)],
        )


def defines_node_sets(event: Event) -> bool:
    """Predicate: only the CRD of CosmosFullNodes."""
    entry = entry_of(event)
    return entry is not None and entry.name == f"cosmosfullnodes.{GROUP}"


def _reconciler(
    parts: CosmosParts,
    observations: Observations,
    memory: NodeSetMemory,
    holds: ChangeHolds,
    node_sets: CountedEntries,
) -> FullNodeReconciler:
    manager, options = parts.manager, parts.options
    metrics = NodeSetMetrics(manager.metrics.registry)
    snapshots = parts.snapshots.informer
    controls = _controls(parts, observations, metrics)
    return FullNodeReconciler(
        NodeSetReads(
            node_sets,
            observations,
            snapshots_served=lambda: snapshots.missing_since is None,
            hub=parts.objects.view(),
        ),
        controls,
        _removal(parts, controls),
        memory,
        NodeSetStatusWriter(parts.statuses, manager.recorder, metrics, options.clock.now),
        NodeSetOptions(
            roll_builder_changes=options.roll_builder_changes,
            sidecar_image=options.node_sidecar_image,
            script_image=options.node_script_image,
            times=options.times,
        ),
        holds,
    )


def _removal(parts: CosmosParts, controls: Controls) -> Removal:
    """Disks and keys first: they are what cannot be created again."""
    return Removal(
        objects=(
            controls.claims.claims,
            controls.node_keys.secrets,
            controls.services.objects,
            controls.pods.pods,
            controls.config_maps.config_maps,
            controls.disruption_budget.budgets,
            *(each.objects for each in controls.access),
        ),
        disks=controls.claims.claims,
        pods=controls.pods.pods,
        keys=controls.node_keys.secrets,
        definitions=Definitions(parts.manager.live_client),
        patcher=parts.patcher,
        clock=parts.options.clock.now,
        lost=LostRecords(
            parts.patcher,
            CosmosFullNode.mapping(),
            parts.options.clock.now,
            lambda used: {RECORD: {"used": used}} if used else {},
            record=RECORD,
        ),
        orphan_requests=_orphan_requests(parts),
    )


def _orphan_requests(parts: CosmosParts) -> OrphanRequests | None:
    """Return who is deleted with `--cascade=orphan`, where no garbage collector sees to it."""
    if not parts.objects.is_hub:
        return None
    requests = OrphanRequests()
    parts.node_sets.informer.add_handler(requests)
    return requests


def _controls(parts: CosmosParts, observations: Observations, metrics: NodeSetMetrics) -> Controls:
    where, cache = parts.objects, parts.objects.cache
    control, workload = parts.control, parts.workload
    access, tracked = access_of(parts), tracked_of(parts)
    where.declare(STORAGE_CLASS)

    def objects(mapping: RESTMapping) -> Objects:
        where.declare_owned(mapping, metadata_only=mapping in tracked)
        return Objects(cache, control, mapping, metrics)

    services, pods, claims = objects(SERVICE), objects(POD), objects(CLAIM)
    return Controls(
        services=PlainControl(SERVICES, services),
        node_keys=NodeKeyCollector(objects(SECRET)),
        peers=PeerCollector(services),
        config_maps=ConfigMapControl(objects(CONFIG_MAP)),
        access=[PlainControl(each, objects(each.mapping)) for each in access],
        disruption_budget=DisruptionBudgetControl(
            objects(DISRUPTION_BUDGET),
            lambda namespace: where.live_client.list(DISRUPTION_BUDGET, namespace),
            utc_now,
            PerUID(parts.node_sets.informer),
        ),
        pods=PodControl(
            pods,
            workload,
            observations,
            utc_now,
            claims,
            EndedPods(utc_now),
            ObjectPatcher(where.cluster.client, FIELD_MANAGER),
            checks_versions=not where.is_hub,
        ),
        additional_pods=AdditionalPodControl(pods, workload, utc_now),
        claims=PVCControl(
            claims,
            ClaimControl(control, classes=StorageClasses(cache)),
            DataSources(cache, where.live_client),
            parts.statuses.patcher,
            parts.options.clock.now,
        ),
    )
