"""The account that Pods of a set run as."""

from dataclasses import dataclass

from apis.cosmos import CosmosFullNode
from ctrlruntime.resources import Owner
from internal.cosmos.fullnode.errors import Findings
from internal.cosmos.fullnode.objects import Objects
from internal.cosmos.fullnode.service_account_builder import build_service_accounts


@dataclass(frozen=True, slots=True)
class ServiceAccountControl:
    """Makes and updates it; nothing is made for a set that names an account of its own."""

    accounts: Objects

    async def reconcile(self, node_set: CosmosFullNode, owner: Owner, findings: Findings) -> None:
        """One pass."""
        await self.accounts.bring_about(build_service_accounts(node_set), owner, findings)
