"""What Pods of a set may do."""

from dataclasses import dataclass

from apis.cosmos import CosmosFullNode
from ctrlruntime.resources import Owner
from internal.cosmos.fullnode.errors import Findings
from internal.cosmos.fullnode.objects import Objects
from internal.cosmos.fullnode.role_builder import build_roles


@dataclass(frozen=True, slots=True)
class RoleControl:
    """Makes and updates it; nothing is made for a set that names an account of its own."""

    roles: Objects

    async def reconcile(self, node_set: CosmosFullNode, owner: Owner, findings: Findings) -> None:
        """One pass."""
        await self.roles.bring_about(build_roles(node_set), owner, findings)
