"""Why strays that a tenant's template prunes stay for now: a freeze holds every change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

from apis.tenancy import Tenant
from ctrlruntime.cache.entry import Entry
from ctrlruntime.queue import Request
from ctrlruntime.rollout import ChangeHolds, NoHolds
from internal.tenancy.tenant.removal_decisions import Decision, Reason

__all__ = ["PruningHolds", "frozen_removals"]


class Registries(Protocol):
    """Registries as the cache has them."""

    def get(self, name: str, *, namespace: str) -> Entry | None: ...


@dataclass(frozen=True, slots=True)
class PruningHolds:
    """What holds the pruning of tenants. An exemption is that of the tenant's registry."""

    registries: Registries
    holds: ChangeHolds = field(default_factory=NoHolds)

    def why(self, tenant: Tenant) -> str:
        """Return why nothing of a tenant may be pruned now; empty: it may."""
        namespace = tenant.metadata.namespace or ""
        if not tenant.spec.prune:
            return ""
        registry = self.registries.get(tenant.spec.registry_id or "", namespace=namespace)
        request = Request(tenant.metadata.name or "", namespace=namespace)
        hold = self.holds.waiting(request, registry)
        return "" if hold is None else hold.message

    def record(self, request: Request, decisions: Iterable[Decision] = ()) -> None:
        """Record how many strays of a tenant wait; it is queued when the freeze is over."""
        self.holds.record(request, sum(item.reason is Reason.FROZEN for item in decisions))


def frozen_removals(tenant: Entry) -> int:
    """Return how many strays of a tenant a freeze holds, by its status."""
    removals = (tenant.field("status") or {}).get("pendingRemovals") or []
    return sum(item.get("reason") == Reason.FROZEN.value for item in removals)
