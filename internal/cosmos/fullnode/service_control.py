"""The Services of a set of nodes."""

from dataclasses import dataclass

from apis.cosmos import CosmosFullNode
from ctrlruntime.resources import Owner
from internal.cosmos.fullnode.findings import Findings
from internal.cosmos.fullnode.objects import Objects
from internal.cosmos.fullnode.service_builder import build_services


@dataclass(frozen=True, slots=True)
class ServiceControl:
    """Makes and updates them. They are never deleted but with the set: an address that peers outside know
    stays with a node that comes back."""

    services: Objects

    async def reconcile(self, node_set: CosmosFullNode, owner: Owner, findings: Findings) -> None:
        """One pass."""
        await self.services.bring_about(build_services(node_set), owner, findings)
