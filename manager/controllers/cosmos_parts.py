"""What the controllers of the cosmos system share: declared informers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import Counter

from apis.cosmos import CosmosFullNode, CosmosFullNodeSpec, CosmosFullNodeStatus
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.cache import InformerHandle
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.store import Store
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.client.selectors import label_text
from ctrlruntime.client.status_client import StatusClient
from ctrlruntime.manager import Manager
from ctrlruntime.resources import Control
from internal.cosmos.labels import CREATED_BY, FIELD_MANAGER
from internal.cosmos.volumesnapshots import VOLUME_SNAPSHOT
from internal.cosmos.workload.workload import WorkloadControl
from manager.controllers.cosmos_options import CosmosOptions

POD = BUILTIN[GroupVersionKind("", "v1", "Pod")]
CLAIM = BUILTIN[GroupVersionKind("", "v1", "PersistentVolumeClaim")]
SERVICE = BUILTIN[GroupVersionKind("", "v1", "Service")]
OURS = {CREATED_BY: FIELD_MANAGER}
"""Labels of everything that is watched: what others run in the cluster is not read."""
SELECTED: Final = label_text(OURS) or ""
"""The same as a selector."""
OF_OWNER = "controller"
"""Index: `<kind>/<namespace>/<name>` of an object's controller."""


def owner_index(entry: Entry) -> Sequence[str]:
    """Index function of OF_OWNER."""
    return [
        f"{reference.kind}/{entry.namespace}/{reference.name}"
        for reference in entry.owners
        if reference.controller
    ]


def control_of(manager: Manager, store: Store) -> Control:
    """Return a control of what the objects of a store own; the store gets an index of UIDs."""
    store.add_index("uid", lambda entry: (entry.uid,))
    return Control(
        manager.cache, field_manager=FIELD_MANAGER, alive=lambda uid: bool(store.count("uid", uid))
    )


@dataclass(slots=True)
class CosmosParts:
    """What is read by more than one controller."""

    manager: Manager
    options: CosmosOptions
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


def _conflicts(manager: Manager) -> Counter:
    return Counter(
        "cosmos_status_conflicts_total",
        "Writes of a status of a set of nodes that were tried again, since others were faster.",
        registry=manager.metrics.registry,
    )


def declare_parts(manager: Manager, options: CosmosOptions) -> CosmosParts:
    """Declare what is read."""
    declare = manager.cache.declare
    node_sets = declare(CosmosFullNode)
    indexes = {OF_OWNER: owner_index}
    control = control_of(manager, node_sets.informer.store)
    statuses = StatusClient(
        manager.client,
        CosmosFullNode,
        field_manager=FIELD_MANAGER,
        conflicted=_conflicts(manager).inc,
    )
    return CosmosParts(
        manager=manager,
        options=options,
        node_sets=node_sets,
        pods=declare(POD, labels=OURS, track_manager=FIELD_MANAGER, indexes=indexes),
        claims=declare(CLAIM, labels=OURS, track_manager=FIELD_MANAGER, indexes=indexes),
        snapshots=declare(VOLUME_SNAPSHOT, track_manager=FIELD_MANAGER),
        statuses=statuses,
        patcher=statuses.patcher,
        control=control,
        workload=WorkloadControl(control, manager.client, POD),
    )
