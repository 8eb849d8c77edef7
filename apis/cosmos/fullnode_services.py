"""The Services of a CosmosFullNode."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ctrlruntime.api import ApiModel

from .common import Count, Metadata
from .shapes import ServicePort

__all__ = ["NodeService", "ServiceOverride"]


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
