"""Tenants that are divided among processes: only those of this one are reconciled, each by it alone."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache import DeleteEvent, Event, Store
from ctrlruntime.controller.predicates import entries_of
from ctrlruntime.controller.reconcile import Reconciler, Result
from ctrlruntime.queue import Request
from ctrlruntime.sharding import current_slot, slot_of, slot_of_labels
from internal.tenancy.tenant.child_events import owning_tenant
from internal.tenancy.tenant.slot_labels import SlotLabels
from internal.tenancy.tenant.slots import TenantSlots


@dataclass(slots=True)
class OwnTenants:
    """A reconciler of tenants, and its part in hand-overs of slots."""

    reconciler: Reconciler
    slots: TenantSlots
    labels: SlotLabels
    tenants: Store
    forget: Callable[[Request], None]
    """Drops what is kept in memory of a tenant that is another process's now."""
    _running: Counter[int] = field(default_factory=Counter)
    _ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def reconcile(self, request: Request) -> Result | None:
        """Reconcile a tenant of this process whose objects its caches have; others wait, or are another's."""
        slot = slot_of(request.name, namespace=request.namespace)
        entry = self.tenants.get(request.name, namespace=request.namespace)
        if not self.slots.holds(request):
            return None
        if entry is not None and not self.labels.covers(entry):
            return None
        self._running[slot] += 1
        token = current_slot.set(slot)
        try:
            return await self.reconciler.reconcile(request)
        finally:
            current_slot.reset(token)
            self._running[slot] -= 1
            self._ended.set()

    async def take(self, slots: frozenset[int]) -> None:
        """Do nothing: the manager lists the objects of slots that come."""

    def begin(self, slots: frozenset[int]) -> None:
        """Look what has no label in slots that are this process's now, and reconcile their tenants."""
        self.labels.begin(slots)

    async def release(self, slots: frozenset[int]) -> None:
        """Return when no pass of the slots runs any more, and nothing is kept in memory of their tenants."""
        while any(self._running[slot] for slot in slots):
            self._ended.clear()
            await self._ended.wait()
        for entry in self.tenants.list():
            if slot_of(entry.name, namespace=entry.namespace) in slots:
                self.forget(Request(entry.name, namespace=entry.namespace))


def wrong_labels(logger: FilteringBoundLogger) -> Callable[[RESTMapping, Event], None]:
    """Return a listener that logs objects of tenants in the slot of another one: they are left alone here."""

    def report(mapping: RESTMapping, event: Event) -> None:
        entry = entries_of(event)[-1]
        tenant, label = owning_tenant(entry), slot_of_labels(entry.labels)
        if tenant is None or isinstance(event, DeleteEvent):
            return
        slot = slot_of(tenant.name, namespace=tenant.namespace)
        if label not in {None, slot}:
            place = f"{entry.namespace}/{entry.name}"
            logger.warning(
                "Label of another slot", kind=mapping.gvk.kind, object=place, label=label, slot=slot
            )

    return report
