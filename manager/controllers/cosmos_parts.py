"""What the controllers of the cosmos system share: declared informers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

from prometheus_client import Counter

from apis.cosmos import CosmosFullNode, CosmosFullNodeSpec, CosmosFullNodeStatus
from ctrlruntime.api import BUILTIN, GroupVersionKind, Resource
from ctrlruntime.cache import Entry, Informer, InformerHandle
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.client.status_client import StatusClient
from ctrlruntime.controller.reconcile import Reconciler
from ctrlruntime.lifecycle import Lifecycle
from ctrlruntime.manager import Manager
from ctrlruntime.resources import Control
from internal.cosmos.labels import CREATED_BY, FIELD_MANAGER
from internal.cosmos.volumesnapshots import VOLUME_SNAPSHOT
from internal.cosmos.workload.lost_disks import losing_disk
from internal.cosmos.workload.workload import WorkloadControl
from manager.controllers.cosmos_options import CosmosOptions
from manager.controllers.object_cluster import ObjectCluster

if TYPE_CHECKING:
    from manager.controllers.hub import Hub

KindT = TypeVar("KindT", bound=Resource[Any, Any])
POD = BUILTIN[GroupVersionKind("", "v1", "Pod")]
CLAIM = BUILTIN[GroupVersionKind("", "v1", "PersistentVolumeClaim")]
SERVICE = BUILTIN[GroupVersionKind("", "v1", "Service")]
SELECTED: Final = f"{CREATED_BY}={FIELD_MANAGER}"
"""Labels of everything that is watched: what others run in the cluster is not read."""


@dataclass(slots=True)
class CosmosParts:
    """What is read by more than one controller."""

    manager: Manager
    options: CosmosOptions
    objects: ObjectCluster
    """Where Pods, claims, snapshots and all else is that is made for our kinds."""
    node_sets: InformerHandle
    pods: InformerHandle
    claims: InformerHandle
    snapshots: InformerHandle
    """Every VolumeSnapshot: claims are filled from others' too. The server may lack the kind."""
    statuses: StatusClient[CosmosFullNodeSpec, CosmosFullNodeStatus]
    """The one way to write the status of a set of nodes, which several controllers do."""
    patcher: ObjectPatcher
    """Writes statuses and finalizers of the other kinds; shares its locks with `statuses`."""
    control: Control
    """Applies and deletes what sets of nodes own."""
    workload: WorkloadControl
    """The one way to take Pods of nodes down: whoever does so keeps to the budget of the others' too."""

    def reconciler(self, life: Lifecycle[KindT], informer: Informer) -> Reconciler:
        """Return the reconciler for a controller of a kind, by the clock of the options."""
        clock = self.options.clock.now
        return life.reconciler(
            self.manager, informer=informer, field_manager=FIELD_MANAGER, clock=clock
        )


def _conflicts(manager: Manager) -> Counter:
    return Counter(
        "cosmos_status_conflicts_total",
        "Writes of a status of a set of nodes that were tried again, since others were faster.",
        registry=manager.metrics.registry,
    )


def declare_parts(manager: Manager, options: CosmosOptions, hub: Hub | None = None) -> CosmosParts:
    """Declare what is read. `hub`: where objects are, if the manager's own cluster is a data plane."""
    objects = ObjectCluster(manager, hub, field_manager=FIELD_MANAGER, selected=SELECTED)
    node_sets = manager.cache.declare(CosmosFullNode)
    control = objects.control(node_sets.informer.store)
    statuses = StatusClient(
        manager.client,
        CosmosFullNode,
        field_manager=FIELD_MANAGER,
        conflicted=_conflicts(manager).inc,
    )
    claims = objects.declare_owned(CLAIM)

    def keeps(pod: Entry) -> str:
        find = claims.informer.store.get
        losing = losing_disk(pod, lambda namespace, name: find(name, namespace=namespace))
        return losing.words if losing is not None else ""

    return CosmosParts(
        manager=manager,
        options=options,
        objects=objects,
        node_sets=node_sets,
        pods=objects.declare_owned(POD),
        claims=claims,
        snapshots=objects.declare(VOLUME_SNAPSHOT, track_manager=FIELD_MANAGER),
        statuses=statuses,
        patcher=statuses.patcher,
        control=control,
        workload=WorkloadControl(control, objects.cluster.client, POD, keeps=keeps),
    )
