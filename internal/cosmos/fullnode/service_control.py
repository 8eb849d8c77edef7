"""The Services of a set of nodes."""

from dataclasses import dataclass

from apis.cosmos import CosmosFullNode
from ctrlruntime.resources import Owner
from internal.cosmos.fullnode.errors import Findings
from internal.cosmos.fullnode.objects import Objects
from internal.cosmos.fullnode.service_builder import build_services


@dataclass(frozen=True, slots=True)
class ServiceControl:
    """Makes and updates them, and deletes those of nodes that are gone: a load balancer costs money."""

    services: Objects

    async def reconcile(self, node_set: CosmosFullNode, owner: Owner, findings: Findings) -> None:
        """One pass. Services of nodes that are disabled or paused stay."""
        desired = build_services(node_set)
        await self.services.bring_about(desired, owner, findings)
        await self.services.remove_others(desired, owner, findings)
