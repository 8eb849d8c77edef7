"""The kinds whose objects follow from the spec of a set alone, as a table."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from apis.cosmos import GROUP, CosmosFullNode
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.resources import Desired, Owner
from internal.cosmos.fullnode.desired_objects import (
    ACCOUNT,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    built,
    inputs_of,
)
from internal.cosmos.fullnode.errors import Findings
from internal.cosmos.fullnode.metadata import default_labels, metadata, named
from internal.cosmos.fullnode.objects import Objects
from internal.cosmos.fullnode.service_account_builder import account_of, build_service_accounts
from internal.cosmos.fullnode.service_builder import build_services
from internal.cosmos.labels import role_binding_name, role_name


def build_roles(node_set: CosmosFullNode) -> list[Desired]:
    """One, with rights to this one set; none if the set names an account."""
    if node_set.spec.service_account_name:
        return []
    name, labels = named(node_set), default_labels(node_set, component="vc")
    plural = node_set.mapping().plural
    rules = [
        {
            "apiGroups": [GROUP],
            "resources": [plural],
            "resourceNames": [name],
            "verbs": ["get"],
        },
        {
            "apiGroups": [GROUP],
            "resources": [f"{plural}/status"],
            "resourceNames": [name],
            "verbs": ["patch"],
        },
    ]
    parts = {"metadata": metadata(node_set, role_name(name), labels), "rules": rules}
    return [built(node_set, ROLE, parts, inputs_of(name, labels))]


def build_role_bindings(node_set: CosmosFullNode) -> list[Desired]:
    """One, for the account that the Pods of a set run as; none if the set names an account."""
    if node_set.spec.service_account_name:
        return []
    name, labels = named(node_set), default_labels(node_set, component="vc")
    parts = {
        "metadata": metadata(node_set, role_binding_name(name), labels),
        "roleRef": {
            "apiGroup": ROLE.gvk.group,
            "kind": ROLE.gvk.kind,
            "name": role_name(name),
        },
        "subjects": [
            {
                "kind": "ServiceAccount",
                "name": account_of(node_set),
                "namespace": node_set.metadata.namespace,
            }
        ],
    }
    return [built(node_set, ROLE_BINDING, parts, inputs_of(name, labels))]


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
