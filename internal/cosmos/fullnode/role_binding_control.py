"""Who has the role of a set."""

from dataclasses import dataclass

from apis.cosmos import CosmosFullNode
from ctrlruntime.resources import Owner
from internal.cosmos.fullnode.errors import Findings
from internal.cosmos.fullnode.objects import Objects
from internal.cosmos.fullnode.role_binding_builder import build_role_bindings


@dataclass(frozen=True, slots=True)
class RoleBindingControl:
    """Makes and updates it; nothing is made for a set that names an account of its own."""

    bindings: Objects

    async def reconcile(self, node_set: CosmosFullNode, owner: Owner, findings: Findings) -> None:
        """One pass."""
        await self.bindings.bring_about(build_role_bindings(node_set), owner, findings)
