"""What the controllers of the cosmos system share: options and declared informers."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from prometheus_client import Counter

from apis.cosmos import CosmosFullNode, CosmosFullNodeSpec, CosmosFullNodeStatus
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.cache import InformerHandle
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.client.status_client import StatusClient
from ctrlruntime.manager import Manager
from ctrlruntime.resources import Control
from internal.cosmos.clock import Clock, SystemClock
from internal.cosmos.fullnode.phase import Times
from internal.cosmos.labels import CREATED_BY, FIELD_MANAGER
from internal.cosmos.volumesnapshots import VOLUME_SNAPSHOT
from internal.cosmos.workload.workload import WorkloadControl

POD = BUILTIN[GroupVersionKind("", "v1", "Pod")]
CLAIM = BUILTIN[GroupVersionKind("", "v1", "PersistentVolumeClaim")]
SERVICE = BUILTIN[GroupVersionKind("", "v1", "Service")]
OURS = {CREATED_BY: FIELD_MANAGER}
"""Labels of everything that is watched: what others run in the cluster is not read."""
OF_OWNER = "controller"
"""Index: `<kind>/<namespace>/<name>` of an object's controller."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CosmosOptions:
    """Options of the cosmos system."""

    fullnode_concurrency: int = 10
    """Sets of nodes worked on at once."""
    poll_seconds: float = 5.0
    """Seconds between two questions to the same node."""
    poll_timeout_seconds: float = 5.0
    """Seconds that a node has to answer."""
    polls_at_once: int = 100
    """Questions under way at once, of all sets."""
    disk_seconds: float = 60.0
    """Seconds between two looks at the usage of the same disk."""
    heal_seconds: float = 60.0
    """Seconds between two looks at a set that is to be mended."""
    node_sidecar_image: str = ""
    """Image of the containers beside a node, where its set names none."""
    node_script_image: str = "ctrlruntime-node-tools:v1"
    """Image that scripts of a set run in, where it names none; `Dockerfile.node-tools` makes it."""
    roll_builder_changes: bool = False
    """Bring objects up to date that only a new manager would build in another way; else each set decides."""
    times: Times = field(default_factory=Times)
    """When a set of nodes is looked at again while it is not as it should be."""
    clock: Clock = field(default_factory=SystemClock)
    """The time that schedules go by."""


def owner_index(entry: Entry) -> Sequence[str]:
    """Index function of OF_OWNER."""
    return [
        f"{reference.kind}/{entry.namespace}/{reference.name}"
        for reference in entry.owners
        if reference.controller
    ]


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
    node_sets.informer.store.add_index("uid", lambda entry: (entry.uid,))
    indexes = {OF_OWNER: owner_index}
    store = node_sets.informer.store

    def alive(uid: str) -> bool:
        return bool(store.count("uid", uid))

    control = Control(manager.cache, field_manager=FIELD_MANAGER, alive=alive)
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
