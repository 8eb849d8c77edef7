"""Labels, annotations, finalizers and names of the cosmos system."""

from typing import Final

from apis.cosmos import GROUP

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

PAUSE_FINALIZER: Final = f"{GROUP}/paused-node"
"""On a ScheduledVolumeSnapshot: its node is restored before it goes."""

NODE: Final = "node"
"""Container of the chain's binary."""
RPC_PORT: Final = "rpc"
"""Name of the port that the node answers at."""
HEALTH_PORT: Final = 1251
"""Port of the container `healthcheck`: GET /health, GET /disk?dir=..."""


def pod_name(name: str, ordinal: int) -> str:
    """Pod, ConfigMap and instance label of one node."""
    return f"{name}-{ordinal}"


def claim_name(name: str, ordinal: int) -> str:
    """Claim of one node."""
    return f"pvc-{name}-{ordinal}"
