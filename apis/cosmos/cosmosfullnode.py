"""CosmosFullNode: a set of nodes of one chain, each with a disk of its own."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from apis.columns import AGE
from apis.references import Name, NumberOrPercentage
from apis.waiting import ChangesWaiting
from ctrlruntime.api import (
    CEL,
    ApiModel,
    Conditions,
    Int32,
    ListMap,
    Manifest,
    PrintColumn,
    Quantity,
    RawExtension,
    Resource,
    Scale,
    Time,
)

from .common import GROUP, VERSION, Metadata, NonEmpty
from .shapes import (
    AccessMode,
    ComputeResources,
    Folder,
    Image,
    LabelValue,
    ListenAddress,
    NamedContainer,
    NamedVolume,
    ObjectName,
    OptionalImage,
    OptionalObjectName,
    PodSpec,
    ServicePort,
    StorageResources,
)

__all__ = [
    "AdditionalPod",
    "App",
    "AutoDataSource",
    "BuilderChanges",
    "Chain",
    "ChainVersion",
    "Comet",
    "CosmosFullNode",
    "CosmosFullNodeSpec",
    "CosmosFullNodeStatus",
    "DataSource",
    "DataSourceFailure",
    "DatabaseBackend",
    "Disable",
    "FullNodePhase",
    "FullNodeType",
    "HeightDriftMitigation",
    "InstanceOverride",
    "KeyCase",
    "LogFormat",
    "LogLevel",
    "NodeService",
    "Ordinals",
    "PVCAutoScale",
    "PVCAutoScaleRequest",
    "PeerRollout",
    "PeerSettings",
    "PodTemplate",
    "ProbeStrategy",
    "Probes",
    "Pruning",
    "PruningStrategy",
    "RetentionPolicy",
    "RolloutStatus",
    "ScheduledSnapshotStatus",
    "SelfHeal",
    "SelfHealingStatus",
    "ServiceOverride",
    "Strategy",
    "SyncInfo",
    "TxIndexer",
    "VolumeClaimTemplate",
]

Count = Annotated[Int32, Field(ge=0)]
"""A number of things."""
MOST_NODES = 200
"""Nodes of one set: each has every other one as a peer in its configuration."""
Height = Annotated[int, Field(ge=0)]
"""Height of a block."""
Sha256 = Annotated[str, Field(pattern="^[0-9a-fA-F]{64}$")]
"""A SHA-256 checksum in hex."""


class FullNodeType(StrEnum):
    """What the nodes are for."""

    FULL_NODE = "FullNode"
    SENTRY = "Sentry"
    """Stands between the network and a remote signer, which connects to it."""


class ProbeStrategy(StrEnum):
    """What makes a Pod ready in the eyes of Kubernetes. Rollouts look at the node itself."""

    NONE = "None"
    REACHABLE = "Reachable"
    """The node answers."""
    IN_SYNC = "InSync"
    """The node answers and has caught up."""


class PruningStrategy(StrEnum):
    """Which past states a node keeps."""

    DEFAULT = "default"
    NOTHING = "nothing"
    EVERYTHING = "everything"
    CUSTOM = "custom"


class LogLevel(StrEnum):
    """What a node logs."""

    TRACE = "trace"
    DEBUG = "debug"
    INFO = "info"
    WARN = "warn"
    ERROR = "error"
    FATAL = "fatal"
    PANIC = "panic"


class KeyCase(StrEnum):
    """How the keys of config.toml are written."""

    SNAKE = "snake_case"
    KEBAB = "kebab-case"
    """As Tendermint 0.35 and 0.36, and chains made from them, have them."""


class TxIndexer(StrEnum):
    """What a node keeps of transactions, to find them again."""

    NULL = "null"
    """Nothing."""
    KV = "kv"
    PSQL = "psql"


class LogFormat(StrEnum):
    """How a node logs."""

    PLAIN = "plain"
    JSON = "json"


class DatabaseBackend(StrEnum):
    """What a node keeps its blocks in."""

    GOLEVELDB = "goleveldb"
    ROCKSDB = "rocksdb"
    PEBBLEDB = "pebbledb"


class RetentionPolicy(StrEnum):
    """What becomes of a claim whose node is no longer wanted."""

    RETAIN = "Retain"
    DELETE = "Delete"


class Disable(StrEnum):
    """What of one node is taken away."""

    POD = "Pod"
    """The Pod; its claim stays."""
    ALL = "All"
    """Pod and claim."""


class DataSourceFailure(StrEnum):
    """What is done if a new claim's source of data cannot be had."""

    WAIT = "Wait"
    """The claim is not made until the source is there."""
    CREATE_EMPTY = "CreateEmpty"
    """The claim is made empty."""


class PeerRollout(StrEnum):
    """When nodes read that their peers changed."""

    ROLLING = "Rolling"
    """At once: their Pods are replaced within the budget."""
    ON_RESTART = "OnRestart"
    """When their Pods are replaced for another reason."""


class BuilderChanges(StrEnum):
    """What becomes of existing objects if a new manager would build them in another way."""

    HOLD = "Hold"
    """They stay as they are until the resource itself changes."""
    ROLL = "Roll"
    """They are brought up to date, Pods within the budget."""


class FullNodePhase(StrEnum):
    """Where a set of nodes stands, in one word."""

    COMPLETE = "Complete"
    PROGRESSING = "Progressing"
    WAITING_FOR_P2P_SERVICES = "WaitingForP2PServices"
    """Addresses for peers outside have not been given yet."""
    TRANSIENT_ERROR = "TransientError"
    """Something failed that is likely to pass; it is tried again."""
    ERROR = "Error"
    """A failure that a person has to resolve."""


# -- spec -----------------------------------------------------------------------------------------


class Ordinals(ApiModel):
    """Which numbers the nodes have."""

    start: Count = 0
    """Number of the first; the others follow."""


class Strategy(ApiModel):
    """How changes are rolled out."""

    max_unavailable: NumberOrPercentage | None = None
    """Nodes that may be down at once, as number or percentage of the replicas (rounded down, at least 1).
    Default: 25%."""
    min_ready_seconds: Annotated[Int32, Field(ge=0, le=86400)] = 10
    """Seconds that a Pod has to work without a break before the next one is taken down."""
    builder_changes: BuilderChanges = BuilderChanges.HOLD
    """What becomes of existing objects if only the manager changed."""
    halt_on_failures: NumberOrPercentage | None = None
    """Halt once so many Pods that are as the spec requests have failed: a number, or a percentage of the replicas
    (rounded down, at least 1). Default: never. The others stay as they are until fewer have failed, the limit is
    raised, or the spec requests other Pods."""
    progress_deadline_seconds: Annotated[Int32, Field(ge=1, le=86400)] | None = None
    """With haltOnFailures: seconds that a Pod may take to answer after it was created; then it has failed. Default: 600.
    While a node catches up, or an init container runs, the deadline does not count."""


class PeerSettings(ApiModel):
    """What becomes of changed peers."""

    rollout: PeerRollout = PeerRollout.ROLLING
    """When nodes read them."""


class Probes(ApiModel):
    """Readiness in the eyes of Kubernetes."""

    strategy: ProbeStrategy | None = None
    """What makes a Pod ready. Default: InSync for full nodes, None for sentries, whose signer has to reach them before
    they can be ready."""


class PodTemplate(ApiModel):
    """The Pods of the nodes."""

    metadata: Metadata = Field(default_factory=Metadata)
    """Labels and annotations of the Pods."""
    image: Image | None = None
    """Image with the chain's binary; `chain.versions` goes before it. Required without versions."""
    sidecar_image: OptionalImage | None = None
    """Image of the containers beside the node: health check, disk usage, version check. Default:
    `manager` option --node-sidecar-image at the time the node set was first built."""
    script_image: str | None = None
    """Image that the scripts of `chain` run in. Default: `manager` option --node-script-image, an image with
    curl, wget, jq, lz4 and zstd."""
    image_pull_policy: Annotated[str, Field(pattern="^(Always|Never|IfNotPresent)$")] | None = None
    """When images are pulled."""
    image_pull_secrets: list[RawExtension] = Field(default_factory=list)
    """Secrets with credentials for the images."""
    node_selector: dict[str, LabelValue] = Field(default_factory=dict)
    """Labels of the machines to run on."""
    affinity: RawExtension | None = None
    """Affinity of the Pods."""
    tolerations: list[RawExtension] = Field(default_factory=list)
    """Taints that are tolerated."""
    priority_class_name: OptionalObjectName | None = None
    """PriorityClass of the Pods."""
    priority: Int32 | None = None
    """Priority; admission may refuse it beside a class."""
    resources: ComputeResources | None = None
    """Requests and limits of the container `node`."""
    termination_grace_period_seconds: Annotated[int, Field(ge=0)] | None = None
    """Seconds a node has to end. Default 30."""
    probes: Probes = Field(default_factory=Probes)
    """Readiness in the eyes of Kubernetes."""
    volumes: list[NamedVolume] = Field(default_factory=list)
    """Further volumes; one of a name the manager uses is merged into the manager's (strategic merge)."""
    init_containers: list[NamedContainer] = Field(default_factory=list)
    """Further init containers; one of a name the manager uses is merged into the manager's (strategic merge)."""
    containers: list[NamedContainer] = Field(default_factory=list)
    """Further containers; one of a name the manager uses is merged into the manager's (strategic merge)."""


class AdditionalPod(
    ApiModel,
    rules=(
        CEL(
            "has(self.spec) != has(self.containers)",
            message="write the Pod's spec below spec, or its fields beside name",
        ),
    ),
):
    """A further Pod for each node. The fields of its spec are below `spec`, or beside `name`."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra={"x-kubernetes-preserve-unknown-fields": True}
    )

    name: ObjectName
    """Name; the node's number follows it."""
    metadata: Metadata = Field(default_factory=Metadata)
    """Labels and annotations."""
    spec: PodSpec | None = None
    """The Pod's spec; in its place its fields may be written here."""
    containers: list[NamedContainer] | None = None
    """Containers of the Pod, without `spec`; every other field of a Pod's spec may stand beside them."""
    prefer_same_node: bool = False
    """Prefer the machine that the node runs on."""

    @property
    def pod_spec(self) -> Manifest:
        """The Pod's spec, wherever it is written; empty if it is nowhere."""
        if self.spec is not None:
            return dict(self.spec)
        if self.containers is None:
            return {}
        return {**(self.model_extra or {}), "containers": self.containers}


class Comet(ApiModel):
    """config.toml."""

    rpc_listen_address: ListenAddress = "tcp://0.0.0.0:26657"
    """Where the node answers requests."""
    p2p_listen_address: ListenAddress = Field(
        default="tcp://0.0.0.0:26656", alias="p2pListenAddress"
    )
    """Where peers connect."""
    peers: str = ""
    """Persistent peers outside of the set: `id@host:port`, by comma. Those of the set are added."""
    seeds: str = ""
    """Seeds: `id@host:port`, by comma."""
    private_peer_ids: str = Field(default="", alias="privatePeerIDs")
    """Ids that are not given to others, by comma. Those of the set are added."""
    unconditional_peer_ids: str = Field(default="", alias="unconditionalPeerIDs")
    """Ids that no limit keeps out, by comma. Those of the set are added."""
    max_inbound_peers: Count = 20
    """Peers that may connect to a node."""
    max_outbound_peers: Count = 20
    """Peers that a node connects to."""
    cors_allowed_origins: list[str] = Field(default_factory=list)
    """Origins that browsers may send requests from."""
    tx_indexer: TxIndexer | None = None
    """Index of transactions. Default: that of the chain, and none for a sentry."""
    key_case: KeyCase = KeyCase.SNAKE
    """How the chain writes the keys of this file; those of `overrides` are taken as they are."""
    overrides: str = ""
    """TOML that goes over all else."""


class Pruning(ApiModel):
    """Which past states a node keeps."""

    strategy: PruningStrategy = PruningStrategy.DEFAULT
    """Preset, or custom."""
    interval: Count | None = None
    """custom: every how many blocks states are removed."""
    keep_every: Count | None = None
    """custom: every how many blocks a state is kept for good."""
    keep_recent: Count | None = None
    """custom: how many last states are kept."""
    min_retain_blocks: Count | None = None
    """Blocks below the last that are kept at least; 0 keeps all."""


class App(ApiModel):
    """app.toml."""

    min_gas_price: NonEmpty
    """Lowest price of gas that the node takes, such as 0.1uatom."""
    api_enable_unsafe_cors: bool = Field(default=False, alias="apiEnableUnsafeCORS")
    """Let browsers use the API from anywhere."""
    grpc_web_enable_unsafe_cors: bool = Field(default=False, alias="grpcWebEnableUnsafeCORS")
    """Let browsers use gRPC-web from anywhere."""
    api_enable_swagger: bool | None = None
    """Whether the API serves its own documentation. Default: that of the chain."""
    pruning: Pruning | None = None
    """Which past states are kept."""
    halt_height: Height | None = None
    """Height that the node ends at."""
    overrides: str = ""
    """TOML that goes over all else."""


class ChainVersion(ApiModel):
    """The binary from a height on."""

    height: Height
    """First height that is made with this version."""
    image: Image
    """Image of the container `node`."""
    init_containers: dict[str, Image] = Field(default_factory=dict)
    """Images of init containers, by name."""
    containers: dict[str, Image] = Field(default_factory=dict)
    """Images of further containers, by name."""
    set_halt_height: bool = False
    """Make the version before it end at this height; for chains that do not do so themselves."""


class Chain(ApiModel):
    """The chain."""

    chain_id: NonEmpty = Field(alias="chainID")
    """Id of the chain, such as cosmoshub-4."""
    network: NonEmpty
    """The network, such as mainnet; a label."""
    binary: NonEmpty
    """Name of the chain's binary within the image."""
    home_dir: Folder = "cosmos"
    """Folder of the node's files below /home/operator."""
    config: Comet = Field(default_factory=Comet)
    """config.toml."""
    app: App | None = None
    """app.toml. Without it nothing is laid over the file, for chains that are not of the Cosmos SDK."""
    log_level: LogLevel | None = None
    """What the node logs. Default: the chain's."""
    log_format: LogFormat | None = None
    """How the node logs. Default: the chain's."""
    addrbook_url: str | None = Field(default=None, alias="addrbookURL")
    """Where an address book is fetched from."""
    addrbook_script: str | None = None
    """Shell script that makes the file $ADDRBOOK_FILE; before the URL."""
    genesis_url: str | None = Field(default=None, alias="genesisURL")
    """Where the genesis file is fetched from."""
    genesis_script: str | None = None
    """Shell script that makes the file $GENESIS_FILE; before the URL."""
    snapshot_url: str | None = Field(default=None, alias="snapshotURL")
    """Where an archive of the data is fetched from, if there is none yet."""
    snapshot_script: str | None = None
    """Shell script that fills $CHAIN_HOME with data, if there is none yet; before the URL."""
    addrbook_sha256: Sha256 | None = Field(default=None, alias="addrbookSHA256")
    """SHA-256 of the file at `addrbookURL` as it is served, in hex. Default: not checked."""
    genesis_sha256: Sha256 | None = Field(default=None, alias="genesisSHA256")
    """SHA-256 of the file at `genesisURL` as it is served, in hex. Default: not checked."""
    snapshot_sha256: Sha256 | None = Field(default=None, alias="snapshotSHA256")
    """SHA-256 of the archive at `snapshotURL` as it is served, in hex. Default: not checked."""
    max_download_size: Quantity | None = None
    """Limit of each download, packed and unpacked. Default: twice the size of the disk."""
    skip_invariants: bool = False
    """Skip the chain's invariants when it starts from genesis."""
    privval_sleep_seconds: Count = 10
    """Sentries: seconds to wait before the node starts, so that the signer has time to go."""
    database_backend: DatabaseBackend | None = None
    """What blocks are kept in. Default: what the chain's init writes."""
    versions: list[ChainVersion] = Field(default_factory=list)
    """Versions by height; the last whose height a node has reached is used."""
    additional_init_args: list[str] = Field(default_factory=list)
    """Further arguments of `init`."""
    additional_start_args: list[str] = Field(default_factory=list)
    """Further arguments of `start`."""


class DataSource(ApiModel):
    """What a new claim is filled from."""

    api_group: str | None = None
    """snapshot.storage.k8s.io for a snapshot; none for a claim."""
    kind: Annotated[str, Field(pattern="^(VolumeSnapshot|PersistentVolumeClaim)$")]
    """VolumeSnapshot or PersistentVolumeClaim."""
    name: Name
    """Name, in the same namespace."""


class AutoDataSource(ApiModel):
    """Fills new claims from the newest snapshot that is ready."""

    volume_snapshot_selector: dict[str, str] = Field(default_factory=dict)
    """Labels of the snapshots."""
    match_instance: bool = False
    """Take only snapshots of the same node."""
    on_failure: DataSourceFailure = DataSourceFailure.WAIT
    """What is done if there is none."""


class VolumeClaimTemplate(ApiModel):
    """The disk of each node."""

    metadata: Metadata = Field(default_factory=Metadata)
    """Labels and annotations."""
    storage_class_name: ObjectName
    """StorageClass; an existing claim keeps its own."""
    resources: StorageResources
    """`requests.storage`; it grows and never shrinks."""
    access_modes: list[AccessMode] = Field(default_factory=list)
    """Default ReadWriteOnce; an existing claim keeps its own."""
    volume_mode: Annotated[str, Field(pattern="^(Filesystem|Block)$")] | None = None
    """Default Filesystem; an existing claim keeps its own."""
    data_source: DataSource | None = None
    """What a new claim is filled from; before autoDataSource."""
    auto_data_source: AutoDataSource | None = None
    """Fill a new claim from the newest snapshot."""


class ServiceOverride(ApiModel):
    """What is different about a Service."""

    metadata: Metadata = Field(default_factory=Metadata)
    """Labels and annotations."""
    type: Annotated[str, Field(pattern="^(ClusterIP|NodePort|LoadBalancer)$")] | None = None
    """Type of the Service."""
    cluster_ip: str | None = Field(default=None, alias="clusterIP")
    """`None` for a headless one."""
    ports: list[ServicePort] = Field(default_factory=list)
    """Ports; one of a name the manager uses is merged into the manager's."""
    external_traffic_policy: Annotated[str, Field(pattern="^(Cluster|Local)$")] | None = None
    """How traffic from outside is spread."""


class NodeService(ApiModel):
    """The Services."""

    max_p2p_external_addresses: Count = Field(default=1, alias="maxP2PExternalAddresses")
    """How many of the first nodes get an address that peers outside can reach."""
    p2p_template: ServiceOverride = Field(default_factory=ServiceOverride, alias="p2pTemplate")
    """The Services that peers outside reach."""
    rpc_template: ServiceOverride = Field(default_factory=ServiceOverride, alias="rpcTemplate")
    """The Service for requests to all nodes."""
    cluster_domain: str = "cluster.local"
    """Domain of the cluster, in addresses of peers."""


class InstanceOverride(ApiModel):
    """What is different about one node."""

    disable: Disable | None = None
    """Take the Pod, or Pod and claim, away."""
    volume_claim_template: VolumeClaimTemplate | None = None
    """In place of the spec's."""
    image: OptionalImage | None = None
    """Image of the container `node`, before `chain.versions`."""
    external_address: str | None = None
    """Address that peers outside reach the node by."""
    node_selector: dict[str, LabelValue] = Field(default_factory=dict)
    """In place of the template's."""


class PVCAutoScale(ApiModel):
    """Grows disks as they fill."""

    used_space_percentage: Annotated[Int32, Field(ge=1, le=100)]
    """From this usage on."""
    increase_quantity: Annotated[
        str, Field(max_length=32, pattern=r"^([0-9]+%|[0-9]+(\.[0-9]+)?([KMGTPE]i|[kMGTPE])?)$")
    ]
    """By how much: a percentage of the capacity (20%) or an amount (100Gi)."""
    max_size: Quantity | None = None
    """No disk grows beyond it."""
    cooldown_seconds: Count = 21600
    """Seconds between two requests for the same disk; clouds limit how often a disk may change."""


class HeightDriftMitigation(ApiModel):
    """Restarts nodes that fall behind the others."""

    threshold: Annotated[Int32, Field(ge=1)]
    """Blocks behind the second highest of the other nodes: one node alone may report a wrong height. It takes
    three nodes in sync."""
    cooldown_seconds: Count = 300
    """Seconds that a Pod is not restarted after it was created."""


class SelfHeal(ApiModel):
    """What is fixed automatically."""

    pvc_auto_scale: PVCAutoScale | None = Field(default=None, alias="pvcAutoScale")
    """Grow disks as they fill."""
    height_drift_mitigation: HeightDriftMitigation | None = None
    """Restart nodes that fall behind."""


class CosmosFullNodeSpec(
    ApiModel,
    rules=(
        CEL(
            "has(self.podTemplate.image) || (has(self.chain.versions) && size(self.chain.versions) > 0)",
            message="podTemplate.image is required unless chain.versions lists images",
        ),
    ),
):
    """The nodes that are wanted."""

    replicas: Annotated[Int32, Field(ge=0, le=MOST_NODES)]
    """Number of nodes."""
    ordinals: Ordinals = Field(default_factory=Ordinals)
    """Which numbers they have."""
    type: FullNodeType = FullNodeType.FULL_NODE
    """What they are for."""
    chain: Chain
    """The chain."""
    pod_template: PodTemplate
    """Their Pods."""
    additional_versioned_pods: Annotated[list[AdditionalPod], ListMap("name")] = Field(
        default_factory=list, max_length=100
    )
    """Further Pods for each node."""
    strategy: Strategy = Field(default_factory=Strategy)
    """How changes are rolled out."""
    peers: PeerSettings = Field(default_factory=PeerSettings)
    """When changed peers, those of the set among them, take effect."""
    volume_claim_template: VolumeClaimTemplate
    """Their disks."""
    volume_retention_policy: RetentionPolicy | None = None
    """What becomes of the disks of nodes that are no longer wanted. Default: they are deleted, but all are
    kept while replicas is 0."""
    service: NodeService = Field(default_factory=NodeService)
    """Their Services."""
    instance_overrides: Annotated[dict[str, InstanceOverride], Field(max_length=1000)] = Field(
        default_factory=dict
    )
    """What is different about single nodes, by name of the Pod."""
    self_heal: SelfHeal | None = None
    """What is fixed automatically."""
    service_account_name: OptionalObjectName | None = None
    """ServiceAccount of the Pods; by default one is made, with its role."""


# -- status ---------------------------------------------------------------------------------------


class SyncInfo(ApiModel):
    """What a node last said of itself."""

    timestamp: Time | None = None
    """When it was asked, to the minute."""
    height: Height | None = None
    """Its last block."""
    in_sync: bool | None = None
    """Whether it has caught up."""
    error: str | None = None
    """Why nothing is known."""


class ScheduledSnapshotStatus(ApiModel):
    """A node that is down so that its disk can be copied."""

    pod_candidate: str
    """Name of its Pod."""
    since: Time | None = None
    """When it was asked for."""


class PVCAutoScaleRequest(ApiModel):
    """A disk that is to grow."""

    requested_size: Quantity
    """To what size."""
    requested_at: Time
    """When it was asked for."""


class SelfHealingStatus(ApiModel):
    """What is being fixed."""

    pvc_auto_scaler: dict[str, PVCAutoScaleRequest] = Field(
        default_factory=dict, alias="pvcAutoScaler"
    )
    """Disks that are to grow, by name of the claim."""


class RolloutStatus(ApiModel):
    """How far a change is."""

    outdated: Int32 = 0
    """Pods that are not as they should be."""
    budget: Int32 = 0
    """How many of them may be taken down now."""
    blocked: str = ""
    """Why none may, in words."""
    failed: Int32 = 0
    """With strategy.haltOnFailures: Pods that are as the spec requests, and have failed."""
    halted: str = ""
    """Why the rollout is halted; empty: it is not."""
    fixes: list[str] = Field(default_factory=list)
    """With strategy.haltOnFailures: Pods that had failed before their last change. Until they work, they do not count
    as failed."""


class CosmosFullNodeStatus(ApiModel):
    """What became of it. Every writer writes only its own fields."""

    observed_generation: int = 0
    """The metadata.generation that was looked at last."""
    phase: FullNodePhase | None = None
    """Where the set stands."""
    status: str = ""
    """The same in a sentence."""
    replicas: Int32 = 0
    """Nodes that exist, for the scale subresource."""
    ready_replicas: Int32 = 0
    """Nodes that have caught up."""
    selector: str = ""
    """Labels of the Pods, for the scale subresource."""
    peers: list[str] = Field(default_factory=list)
    """Addresses that peers outside reach the nodes by: `id@host:port`."""
    sync: dict[str, SyncInfo] = Field(default_factory=dict)
    """What the nodes last said, by Pod."""
    height: dict[str, Height] = Field(default_factory=dict)
    """The next height of each node, by Pod; it decides on the version."""
    rollout: RolloutStatus = Field(default_factory=RolloutStatus)
    """How far a change is."""
    waiting: ChangesWaiting | None = None
    """Changes that a ChangeFreeze holds."""
    scheduled_snapshot_status: dict[str, ScheduledSnapshotStatus] = Field(default_factory=dict)
    """Nodes that are down for a snapshot, by key of what asked for it."""
    self_healing: SelfHealingStatus = Field(default_factory=SelfHealingStatus)
    """What is being fixed."""
    sidecar_image: str = ""
    """Image beside the nodes where the spec names none; kept so that a new manager changes nothing."""
    conditions: Conditions = Field(default_factory=list)
    """Ready, Progressing, ClaimsAsSpecified, BuilderChangeHeld, CRDsAvailable; RolloutHalted with
    strategy.haltOnFailures."""


class CosmosFullNode(
    Resource[CosmosFullNodeSpec, CosmosFullNodeStatus],
    group=GROUP,
    version=VERSION,
    plural="cosmosfullnodes",
    categories=("cosmos",),
    short_names=("cfn",),
    scale=Scale(".spec.replicas", ".status.replicas", ".status.selector"),
    print_columns=(
        PrintColumn("Ready", ".status.readyReplicas", "integer"),
        PrintColumn("Desired", ".spec.replicas", "integer"),
        PrintColumn("Phase", ".status.phase", "string"),
        AGE,
        PrintColumn("Message", ".status.status", "string", priority=1),
    ),
):
    """A set of nodes of one chain."""
