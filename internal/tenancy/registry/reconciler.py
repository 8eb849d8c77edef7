"""Reconciles one TenantRegistry: query, plan, tenants, status."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import partial

from pydantic import ValidationError

from apis.tenancy import TenantRegistry
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import Conflict
from ctrlruntime.controller.annotations import is_paused
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.queue import Request
from internal.tenancy.objects.children import OWNER_INDEX
from internal.tenancy.registry.planner import RegistryPlanner
from internal.tenancy.registry.query_schedule import QuerySchedule
from internal.tenancy.registry.removal import RegistryRemoval
from internal.tenancy.registry.reports import RegistryReports
from internal.tenancy.registry.state import RegistryState
from internal.tenancy.registry.tenant_writer import TenantWriter
from internal.tenancy.shared.deps import TenancyStores, Writers
from internal.tenancy.shared.labels import FINALIZER
from internal.tenancy.shared.policies import ALLOW_DELETE
from internal.tenancy.sources.write_back import WriteBacks
from internal.tenancy.sync.neighbours import owner_of
from internal.tenancy.sync.removal_window import Recorded


@dataclass(frozen=True, slots=True)
class RegistryRows:
    """The rows of registries: when they are read, and the states that are written back to them."""

    schedule: QuerySchedule
    write_backs: WriteBacks


@dataclass(slots=True)
class RegistryReconciler:
    """Keeps the tenants of a registry equal to its active rows times its templates.

    A failing query changes nothing but the Ready condition; what a plan may remove is guarded.
    """

    stores: TenancyStores
    writers: Writers
    rows: RegistryRows
    planner: RegistryPlanner
    tenants: TenantWriter
    removal: RegistryRemoval
    reports: RegistryReports
    _states: dict[Request, RegistryState] = field(default_factory=dict, init=False)

    def replan(self, request: Request) -> None:
        """Templates or tenants changed: compare again with the last rows at the next pass."""
        self._state(request).replan = True

    def query_now(self, users: frozenset[Hashable]) -> list[Request]:
        """Credentials or rows changed: query at the next pass. Returns the registries concerned."""
        requests = [user for user in users if isinstance(user, Request)]
        for request in requests:
            self._state(request).query_due = 0.0
        return requests

    def tenant_gone(self, namespace: str, name: str) -> None:
        """Forget a tenant that is gone."""
        self.planner.forget_tenant(namespace, name)

    async def reconcile(self, request: Request) -> Result | None:
        """One pass. Raises the client's errors when the server gives no usable answer."""
        entry = self.stores.registry(request)
        if entry is None:
            await self._forget(request)
            return None
        if is_paused(entry.annotations):
            await self.writers.statuses.pause(TenantRegistry.mapping(), entry)
            return None
        if entry.deletion_timestamp is not None:
            self.rows.write_backs.forget(request)
            return await self.removal.tear_down(entry)
        state = self._state(request)
        if state.recorded is not None and state.recorded.uid != entry.uid:
            # Made again, as by a restore: nothing was recorded of this one.
            state.recorded, state.proved = None, False
        if state.recorded is None and await self.reports.lost.report(
            entry, partial(self._has_tenants, entry)
        ):
            entry = self.stores.registry(request) or entry
        try:
            registry = entry.typed(TenantRegistry)
        except ValidationError as error:
            await self.writers.statuses.refuse(TenantRegistry.mapping(), entry, "Ready", error)
            return None
        mapping = TenantRegistry.mapping()
        if not await self.writers.patcher.add_finalizer(mapping, entry, FINALIZER):
            return None
        if state.recorded is None:  # it counts if the status is lost from now on
            state.recorded = Recorded.of(registry)
            state.released = frozenset(registry.status.approved_removals)
        registry = state.recorded.restored(registry)
        await self.rows.schedule.query_if_due(request, registry, entry, state)
        await self._sync_if_due(request, registry, entry, state)
        self.rows.write_backs.offer(request, registry, state.synced.reading)
        state.synced.write_back = self.rows.write_backs.outcome(request)
        return await self.reports.report(request, state)

    async def _sync_if_due(
        self, request: Request, registry: TenantRegistry, entry: Entry, state: RegistryState
    ) -> None:
        if not self.planner.is_due(request, registry, entry, state):
            return
        state.replan = False
        try:
            await self._sync(registry, entry, state)
        except BaseException:
            state.replan = True  # not carried out in full: the retry has to plan again
            raise

    async def _sync(self, registry: TenantRegistry, entry: Entry, state: RegistryState) -> None:
        """Plan with the last rows, record what is removed, then create, update and delete."""
        reading = state.synced.reading
        if reading is None:
            return
        owner = owner_of(entry)
        await self.tenants.secrets.watch(owner)
        planned = await self.planner.plan(registry, entry, reading, state)
        if planned.allowed.removes and not state.proved:
            # Once in a process: from then on `recorded` counts, whatever is put back.
            if await self.reports.lost.report_older(entry):
                state.recorded = None
                raise Conflict("An older status was put back; it is read again.")
            state.proved = True
        approval = entry.annotations.get(ALLOW_DELETE, "") if planned.whole.override_used else ""
        released = planned.whole.released(state.released)
        state.recorded = await self.reports.record_removals(
            registry, entry, planned.allowed, released, approval
        )
        state.released = released
        await self.reports.announce(registry, entry, planned.whole)
        unmarked = await self.tenants.record_moves(planned.allowed, owner)
        allowed, unrecorded = await self.tenants.record_replacements(planned.allowed, owner)
        unrecorded += unmarked
        invalid = await self.planner.invalid(planned, registry)
        held, unsaved = await self.planner.record(planned)
        held_back = frozenset(invalid) | frozenset(held)
        refused = await self.tenants.carry_out(allowed, planned.builder, owner, held_back)
        refused += [f"template {name!r} is not rolled out: {why}" for name, why in held.items()]
        self.planner.retry(state, [*unrecorded, *unsaved, *refused])
        skipped = [f"template {name!r} is not rolled out: {why}" for name, why in invalid.items()]
        state.synced.troubles = [*planned.troubles, *unrecorded, *unsaved, *skipped, *refused]
        await self.tenants.secrets.clean(owner, planned.whole)

    def _has_tenants(self, entry: Entry) -> bool:
        found = self.stores.tenants.by_index(OWNER_INDEX, owner_of(entry).key)
        return next(iter(found), None) is not None

    def _state(self, request: Request) -> RegistryState:
        return self._states.setdefault(request, RegistryState())

    async def _forget(self, request: Request) -> None:
        self.removal.forget_gone()
        self.rows.write_backs.forget(request)
        if self._states.pop(request, None) is not None:
            await self.rows.schedule.forget(request)
        self.reports.forget(request)
        self.tenants.forget(request)
        self.planner.forget(request)
