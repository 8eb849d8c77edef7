"""Why strays that a tenant's template prunes stay for now: a freeze holds every change."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from apis.operations import EXEMPT
from apis.tenancy import Tenant
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.events import Event, UpdateEvent
from ctrlruntime.queue import Request
from ctrlruntime.rollout import ChangeHolds, NoHolds
from internal.tenancy.removal_decisions import Decision, Reason

__all__ = ["PruningHolds"]


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
        hold = self.holds.waiting(request, None if registry is None else registry.annotations)
        return "" if hold is None else hold.message

    def record(self, request: Request, decisions: Iterable[Decision] = ()) -> None:
        """Record how many strays of a tenant wait; it is queued when the freeze is over."""
        self.holds.record(request, sum(item.reason is Reason.FROZEN for item in decisions))


@dataclass(frozen=True, slots=True)
class ExemptionChanges:
    """An event handler of the registry informer: calls `on_change` when the exemption of one changed."""

    on_change: Callable[[], None]

    def __call__(self, event: Event) -> None:
        if isinstance(event, UpdateEvent):
            before, after = (each.annotations.get(EXEMPT) for each in (event.old, event.new))
            if before != after:
                self.on_change()
