"""Labels, annotations, finalizers and names of the cosmos system."""

from collections.abc import Mapping
from typing import Final

from apis.cosmos import GROUP
from internal.cosmos.names import to_host, to_name

FIELD_MANAGER: Final = "cosmos-manager"
"""Field manager of everything that is applied for a set of nodes."""

NAME: Final = "app.kubernetes.io/name"
"""Label: the CosmosFullNode's name."""
INSTANCE: Final = "app.kubernetes.io/instance"
"""Label: the node, by the name of its Pod."""
COMPONENT: Final = "app.kubernetes.io/component"
"""Label: the kind that it was made for."""
CREATED_BY: Final = "app.kubernetes.io/created-by"
"""Label: FIELD_MANAGER."""
VERSION: Final = "app.kubernetes.io/version"
"""Label: tag of the node's image."""
NETWORK: Final = f"{GROUP}/network"
"""Label: the chain's network."""
TYPE: Final = f"{GROUP}/type"
"""Label: FullNode or Sentry."""
BELONGS_TO: Final = f"{GROUP}/belongs-to"
"""Label of an additional Pod: the node's Pod."""
SOURCE: Final = f"{GROUP}/source"
"""Label of a VolumeSnapshot: the ScheduledVolumeSnapshot that made it."""

HEIGHT: Final = f"{GROUP}/height"
"""Annotation of a VolumeSnapshot, and of a claim made from one: the next height of the node on that disk."""
NODE_KEY_ID: Final = f"{GROUP}/node-key-id"
"""Annotation of the Pod of a node: the id of the key that it was made with."""

FINALIZER: Final = f"{GROUP}/finalizer"
"""On a CosmosFullNode: where its CRD is being deleted, its objects are released before it goes. On a data plane
on a StatefulJob too: what they have on the hub is deleted first."""
APPROVE_DELETION: Final = f"{GROUP}/approve-deletion"
"""Annotation of a CRD: "true" lets its deletion delete what its objects own."""

PAUSE_FINALIZER: Final = f"{GROUP}/paused-node"
"""On a ScheduledVolumeSnapshot: its node is restored before it goes."""

SENTRY: Final = "cosmos-sentry"
"""COMPONENT of the Services that remote signers connect to; signers find sentries by it."""
ADDITIONAL: Final = "cosmos-additional-pod"
"""COMPONENT of the Pods beside the nodes."""

NODE: Final = "node"
"""Container of the chain's binary."""
HEALTHCHECK: Final = "healthcheck"
"""Container that tells health and disk usage."""
VERSION_CHECK: Final = "version-check"
"""Init container that sees to the right version."""
VERSION_CHECK_INTERVAL: Final = "version-check-interval"
"""Container that tells the next height."""
RPC_PORT: Final = "rpc"
"""Name of the port that the node answers at."""
HEALTH: Final = "health"
"""Name of the port of the container `healthcheck`."""
HEALTH_PORT: Final = 1251
"""Port of the container `healthcheck`: GET /health, GET /disk?dir=..."""


def is_beside_node(labels: Mapping[str, str]) -> bool:
    """Whether these are labels of an additional Pod. Either of its two is enough."""
    return BELONGS_TO in labels or labels.get(COMPONENT) == ADDITIONAL


def pod_name(name: str, ordinal: int) -> str:
    """Pod, ConfigMap and instance label of one node."""
    return to_name(f"{name}-{ordinal}")


def claim_name(name: str, ordinal: int) -> str:
    """Claim of one node."""
    return to_name(f"pvc-{name}-{ordinal}")


def node_key_name(name: str, ordinal: int) -> str:
    """Secret with the key of one node."""
    return to_name(f"{name}-{ordinal}-node-key")


def p2p_service_name(name: str, ordinal: int) -> str:
    """Service that peers reach one node by."""
    return to_host(f"{name}-p2p-{ordinal}")


def privval_service_name(name: str, ordinal: int) -> str:
    """Service that the remote signer reaches one sentry by."""
    return to_host(f"{name}-privval-{ordinal}")


def rpc_service_name(name: str) -> str:
    """Service for requests to all nodes."""
    return to_host(f"{name}-rpc")


def account_name(name: str) -> str:
    """ServiceAccount of the Pods of a set."""
    return to_name(f"{name}-vc-sa")


def disruption_budget_name(name: str) -> str:
    """PodDisruptionBudget of a set."""
    return to_name(name)


def role_name(name: str) -> str:
    """Role of that account."""
    return to_name(f"{name}-vc-r")


def role_binding_name(name: str) -> str:
    """RoleBinding of the two."""
    return to_name(f"{name}-vc-rb")
