"""CosmosFullNode: a set of nodes of one chain, each with a disk of its own."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from apis.approvals import RequireApprovalBy
from apis.columns import AGE, condition_column
from apis.deletions import Deletions
from ctrlruntime.api import CEL, ApiModel, Int32, ListMap, PrintColumn, Resource, Scale

from .common import GROUP, VERSION, Count
from .fullnode_chain import Chain
from .fullnode_disks import RetentionPolicy, VolumeClaimTemplate
from .fullnode_pods import AdditionalPod, PodTemplate
from .fullnode_rollout import DisruptionBudget, PeerSettings, Strategy
from .fullnode_selfheal import SelfHeal
from .fullnode_services import NodeService
from .fullnode_status import CosmosFullNodeStatus
from .shapes import LabelValue, OptionalImage, OptionalObjectName

__all__ = [
    "MOST_NODES",
    "CosmosFullNode",
    "CosmosFullNodeSpec",
    "Disable",
    "FullNodeType",
    "InstanceOverride",
    "Ordinals",
]

MOST_NODES = 200
"""Nodes of one set: each has every other one as a peer in its configuration."""


class FullNodeType(StrEnum):
    """What the nodes are for."""

    FULL_NODE = "FullNode"
    SENTRY = "Sentry"
    """Stands between the network and a remote signer, which connects to it."""


class Disable(StrEnum):
    """What of one node is taken away."""

    POD = "Pod"
    """The Pod; its claim stays."""
    ALL = "All"
    """Pod and claim."""


class Ordinals(ApiModel):
    """Which numbers the nodes have."""

    start: Count = 0
    """Number of the first; the others follow."""


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
    keep_validator_key: bool = False
    """Start with the validator key that a copied disk or a snapshotScript brings; for a validator that moves here.

    Stop the node that has used it first: two nodes with one key sign twice.
    """


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
    disruption_budget: DisruptionBudget = Field(default_factory=DisruptionBudget)
    """How many nodes evictions may take down."""
    peers: PeerSettings = Field(default_factory=PeerSettings)
    """When changed peers, those of the set among them, take effect."""
    volume_claim_template: VolumeClaimTemplate
    """Their disks."""
    volume_retention_policy: RetentionPolicy | None = None
    """What becomes of the disks of nodes that are no longer wanted. Default: they are deleted, but all are
    kept while replicas is 0."""
    deletion_protection: bool | None = None
    """Whether disks of renumbered nodes, the last with the chain's data, and those of a deleted set go only with an
    approval. Default: true; with false, the limits of deletions alone count."""
    require_approval_by: RequireApprovalBy | None = None
    """Whose approvals count; by default those of everyone who may write the annotation. While it is set, only a member of the
    group changes it, deletionProtection, deletions and volumeRetentionPolicy."""
    deletions: Deletions = Field(default_factory=Deletions)
    """How many nodes may lose their disks without an approval."""
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
        PrintColumn("Version", ".status.version", "string"),
        PrintColumn("Height", ".status.lastBlock", "integer"),
        PrintColumn("Phase", ".status.phase", "string"),
        condition_column("Reason", "Ready", "reason"),
        AGE,
        PrintColumn("Message", ".status.status", "string"),
    ),
):
    """A set of nodes of one chain."""
