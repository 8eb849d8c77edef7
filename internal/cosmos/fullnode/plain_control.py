"""The kinds whose objects follow from the spec of a set alone, as a table."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from apis.cosmos import CosmosFullNode
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.resources import Desired, Owner
from internal.cosmos.fullnode.desired_objects import ACCOUNT, ROLE, ROLE_BINDING, SERVICE
from internal.cosmos.fullnode.errors import Findings
from internal.cosmos.fullnode.objects import Objects
from internal.cosmos.fullnode.role_builder import build_role_bindings, build_roles
from internal.cosmos.fullnode.service_account_builder import build_service_accounts
from internal.cosmos.fullnode.service_builder import build_services


@dataclass(frozen=True, slots=True)
class PlainKind:
    """A kind of object, and what a set has of it."""

    step: str
    """The name of its step in messages."""
    mapping: RESTMapping
    build: Callable[[CosmosFullNode], Sequence[Desired]]
    deletes: bool = False
    """Whether objects that are no longer wanted are deleted."""


SERVICES: Final = PlainKind("Services", SERVICE, build_services, deletes=True)
"""Those of nodes that are gone are deleted: a load balancer costs money. Those of disabled or paused nodes stay."""
ACCOUNTS: Final = PlainKind("ServiceAccount", ACCOUNT, build_service_accounts)
"""What Pods run as; nothing is made for a set that names an account of its own."""
ACCESS: Final = (
    ACCOUNTS,
    PlainKind("Role", ROLE, build_roles),
    PlainKind("RoleBinding", ROLE_BINDING, build_role_bindings),
)
"""The account, and what it may do."""


@dataclass(frozen=True, slots=True)
class PlainControl:
    """Makes, updates and deletes the objects of such a kind."""

    kind: PlainKind
    objects: Objects

    async def reconcile(
        self,
        node_set: CosmosFullNode,
        owner: Owner,
        findings: Findings,
        staying: Collection[int] = (),
    ) -> None:
        """Take one pass over the objects of a set; those of nodes of the numbers `staying` are not deleted."""
        desired = self.kind.build(node_set)
        await self.objects.reconcile(
            desired, owner, findings, deletes=self.kind.deletes, staying=staying
        )
