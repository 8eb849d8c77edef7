"""What is reported of a registry: its status, events, metrics, and the removals that its guard counts."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

from apis.tenancy import TenantRegistry
from apis.tenancy.tenantregistry import SavedRemovals
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.cache import Entry, Store
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.events import EventRecorder
from ctrlruntime.gate.budget import still_used
from ctrlruntime.queue import Request
from ctrlruntime.resources import Owner
from internal.removal_holds import LostRecords, another_time
from internal.tenancy.registry.state import RegistryState
from internal.tenancy.registry.status import (
    REPLACEMENT_FAILED,
    STATES_WRITTEN,
    registry_status,
    removal_condition,
)
from internal.tenancy.shared.deps import Clocks, Writers
from internal.tenancy.shared.metrics import TenancyMetrics
from internal.tenancy.shared.outcome import REMOVAL_PENDING
from internal.tenancy.shared.policies import ALLOW_DELETE
from internal.tenancy.shared.tally import Tally
from internal.tenancy.shared.tenant_counts import REMOVALS, group
from internal.tenancy.sync.plan import Plan
from internal.tenancy.sync.removal_window import Recorded, record, unrecorded
from internal.tenancy.tenant.slots import SlotConditions

MOST_RELEASED: Final = 1000
"""Names of tenants in a status that has to stay far below what the API server takes."""


def recorded_of(released: Collection[str]) -> list[str]:
    """Return which of the tenants that an approval released are on record: the first in order."""
    return sorted(released)[:MOST_RELEASED]


@dataclass(slots=True)
class RegistryReports:
    """Writes the status of registries and their events."""

    registries: Store
    writers: Writers
    tally: Tally
    metrics: TenancyMetrics
    recorder: EventRecorder
    clocks: Clocks
    status_period: float
    """Seconds between two writes of one status, at least."""
    lost: LostRecords
    """Registries whose status was lost, with what it records of removals."""
    slots: SlotConditions | None = None
    """None where one manager works on all tenants."""

    async def record_removals(
        self,
        registry: TenantRegistry,
        entry: Entry,
        allowed: Plan,
        released: frozenset[str] = frozenset(),
        approval: str = "",
    ) -> Recorded:
        """Write the rows that are about to lose their tenants, so that no crash makes them uncounted.

        `approval`: the digest that is used by that; `released`: the tenants that it and those before let go. Raises Conflict if the registry is not as it was read: then nothing is removed yet.
        """
        removed = {item.uid for item in allowed.deletes if item.uid}
        removed |= {item.uid for item in allowed.replaced if item.uid}
        updated = {item.tenant.name for item in allowed.updates}
        changed = {
            each.uid for each in allowed.value_removals if each.counted and each.name in updated
        }
        now, window = self.clocks.now(), registry.spec.deletion_guard.period
        before = registry.status
        fresh = unrecorded(before.removed_rows, removed, now, window)
        fresh |= unrecorded(before.value_removals, changed, now, window)
        recorded = recorded_of(released)
        same = recorded == registry.status.approved_removals
        if same and not (approval or fresh):
            return Recorded.of(registry)
        after = registry.status.model_copy(deep=True)
        after.removed_rows = record(after.removed_rows, removed, now, window)
        after.value_removals = record(after.value_removals, changed, now, window)
        after.approved_removals = recorded
        after.removals = SavedRemovals(saved=another_time(now, after.removals.saved))
        if approval:
            used = {**after.used_approvals, approval: int(now.timestamp())}
            after.used_approvals = still_used(used, (approval,))
        # Against what is stored: what was put back over the rest of the record goes with the same write.
        stored = entry.typed(TenantRegistry).status
        await self.writers.statuses.write(
            TenantRegistry.mapping(), entry, stored, after, only_if_unchanged=True
        )
        return Recorded.of(registry.model_copy(update={"status": after}))

    async def announce(self, registry: TenantRegistry, entry: Entry, made: Plan) -> None:
        """Record events for what the guard holds and what failed.

        An approval of deletions counts once, so its annotation is removed first.
        """
        before = find_condition(registry.status.conditions, "DeletionsHeld")
        if made.held is not None and (
            before is None
            or before.status != "True"
            or (made.held.refusal and before.message != made.held.message)
        ):
            self.recorder.event(
                registry, "Warning", made.held.reason.value, "Plan", made.held.message
            )
        if made.override_used:
            mapping = TenantRegistry.mapping()
            await self.writers.patcher.remove_annotation(mapping, entry, ALLOW_DELETE)
        failed = removal_condition(made.replaced)
        known = find_condition(registry.status.conditions, REMOVAL_PENDING)
        if failed.reason == REPLACEMENT_FAILED and (known is None or known.reason != failed.reason):
            self.recorder.event(registry, "Warning", failed.reason, "Plan", failed.message)

    async def report(self, request: Request, state: RegistryState) -> Result:
        """Write the status, once per status period. Return the delay until the next pass."""
        now = self.clocks.monotonic()
        entry = self.registries.get(request.name, namespace=request.namespace)
        if entry is None:
            return Result()
        if now < state.status_at + self.status_period:
            return Result(requeue_after=state.status_at + self.status_period - now)
        own = group("registry", request.namespace, request.name)
        counts = self.tally.counts(own)
        if (made := state.synced.plan) is not None and made.undesired:
            undesired = [(request.namespace, name) for name in made.undesired]
            counts = replace(counts, ready=counts.ready - self.tally.ready_among(own, undesired))
        others = group("registry", request.namespace, request.name, managed=False)
        removals = group(REMOVALS, request.namespace, request.name)
        registry = entry.typed(TenantRegistry)
        before = registry.status
        if state.recorded is not None:
            registry = state.recorded.restored(registry)
        self._announce_write_back(registry, state)
        if self.slots is not None:
            total = self.tally.counts(own).total
            state.synced.slots = self.slots.of(Owner.of(entry).key, total)
        status = registry_status(
            registry.status,
            state.synced,
            counts,
            unmanaged=self.tally.counts(others).total,
            removals=self.tally.counts(removals).total,
            generation=entry.generation,
            handled=state.handled or "",
            now=self.clocks.now(),
        )
        if await self.writers.statuses.write(TenantRegistry.mapping(), entry, before, status):
            state.status_at = now
            state.synced.advanced = False
        self.metrics.registry(request.namespace, request.name, status)
        return Result(requeue_after=max(0.05, state.due - self.clocks.monotonic()))

    def _announce_write_back(self, registry: TenantRegistry, state: RegistryState) -> None:
        """Record an event when states cannot be written back, once for each reason."""
        outcome = state.synced.write_back
        before = find_condition(registry.status.conditions, STATES_WRITTEN)
        if outcome is None or outcome.succeeded:
            return
        if before is None or (before.status, before.reason) != ("False", outcome.reason):
            self.recorder.event(registry, "Warning", "WriteBackFailed", "Write", outcome.message)

    def forget(self, request: Request) -> None:
        """Remove the metric series of a registry that is gone."""
        self.metrics.forget_registry(request.namespace, request.name)
