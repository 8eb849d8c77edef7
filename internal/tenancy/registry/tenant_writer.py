"""Carries out a registry's plan: creates, updates and deletes Tenants."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from apis.tenancy import Tenant
from ctrlruntime.cache.store import Store
from ctrlruntime.client.errors import APIError, Conflict
from ctrlruntime.controller.reconcile import reconcile_context
from ctrlruntime.gate import Cause
from ctrlruntime.queue import Request
from ctrlruntime.resources import Desired, Owner
from internal.tenancy.registry.awaited_tenants import AwaitedTenants
from internal.tenancy.registry.move_marks import MoveMarks
from internal.tenancy.registry.spec_edits import added_paths, removal_patch
from internal.tenancy.registry.value_secrets import ValueSecrets
from internal.tenancy.shared.deps import Writers
from internal.tenancy.shared.pools import Job
from internal.tenancy.shared.tally import TenantState
from internal.tenancy.shared.tenant_counts import state_of
from internal.tenancy.sync.departures import Delete, DeleteReason
from internal.tenancy.sync.neighbours import taking_over
from internal.tenancy.sync.plan import Plan
from internal.tenancy.sync.plan_inputs import DesiredTenant
from internal.tenancy.sync.tenants import TenantBuilder
from internal.tenancy.tenant.replacement_marks import ReplacementMarks

_CAUSES = {
    DeleteReason.ROW_GONE: Cause.ROW_GONE,
    DeleteReason.TEMPLATE_GONE: Cause.TEMPLATE_GONE,
}


@dataclass(slots=True)
class TenantWriter:
    """Writes the Tenants of registries, each after the Secret with its values."""

    tenants: Store
    secrets: ValueSecrets
    writers: Writers
    awaited: AwaitedTenants

    async def record_replacements(self, allowed: Plan, owner: Owner) -> tuple[Plan, list[str]]:
        """Record who replaces whom before anything is created or deleted.

        Returns the plan without tenants whose predecessors could not be marked, and why.
        """
        request = Request(owner.name, namespace=owner.namespace)
        self.awaited.expect(request, (each for item in allowed.replaced for each in item.awaited))
        await self.awaited.recheck(request)
        marks = ReplacementMarks(self.tenants, self.writers.patcher, self.writers.pools)
        failures = await marks.write(owner.namespace, allowed.replacements, allowed.unpaired)
        held_back = frozenset(name for item in failures for name in item.held_back)
        creates = tuple(item for item in allowed.creates if item.name not in held_back)
        return replace(allowed, creates=creates), [item.message for item in failures]

    async def record_moves(self, allowed: Plan, owner: Owner) -> list[str]:
        """Record the rows of tenants that move. Returns what could not be recorded, one sentence each."""
        marks = MoveMarks(self.tenants, self.writers.patcher, self.writers.pools)
        return await marks.write(owner.namespace, allowed.moves)

    async def carry_out(
        self, made: Plan, builder: TenantBuilder, owner: Owner, held_back: frozenset[str]
    ) -> list[str]:
        """Delete, create and update, but for the templates `held_back`.

        Returns what could not be done, one sentence each.
        """
        kind = Tenant.gvk().group_kind
        writes = [(tenant, False) for tenant in made.creates]
        writes += [(update.tenant, update.unready) for update in made.updates]
        jobs = [Job(kind, partial(self._delete, item, owner)) for item in made.deletes]
        jobs += [
            Job(kind, partial(self._write, item, builder, owner, unready=unready))
            for item, unready in writes
            if item.template.name not in held_back
        ]
        troubles: list[str] = []
        for outcome in await self.writers.pools.run(jobs):
            if isinstance(outcome, APIError):
                troubles.append(outcome.message)
            elif isinstance(outcome, Exception):
                raise outcome
            elif outcome:
                troubles.append(outcome)
        return troubles

    def forget(self, request: Request) -> None:
        """Forget what a registry that is gone waited for."""
        self.awaited.expect(request, ())

    async def _delete(self, delete: Delete, owner: Owner) -> str:
        entry = self.tenants.get(delete.name, namespace=owner.namespace)
        if entry is None or entry.deletion_timestamp is not None:
            return ""
        cause = _CAUSES[delete.reason]
        if not await self.writers.control.remove(Tenant.mapping(), entry, owner, cause):
            return f"tenant {delete.name!r} was not deleted: it is not the registry's"
        reconcile_context().logger.info(
            "Tenant deleted", tenant=delete.name, reason=delete.reason.value
        )
        return ""

    async def _write(
        self, tenant: DesiredTenant, builder: TenantBuilder, owner: Owner, *, unready: bool
    ) -> str:
        """Write a tenant. `unready`: only if it still is not; otherwise the event of its state plans again."""
        blueprint = builder.blueprint(tenant)
        if blueprint is None:
            return (
                f"tenant {tenant.name!r} waits for the rollout of its template: no tenant has the content "
                f"of its revision {tenant.version} unchanged"
            )
        owner = taking_over(tenant, owner, self.tenants.get(tenant.name, namespace=owner.namespace))
        trouble = await self.secrets.write(tenant, builder, owner)
        if trouble:
            return trouble
        before = self.tenants.get(tenant.name, namespace=owner.namespace)
        desired, over = builder.tenant(tenant, before, blueprint), ""
        if unready and before is not None:
            if state_of(before) is TenantState.READY:
                return ""
            # Its own reconciler may have its status on the way: the server decides which of both was first.
            over = before.resource_version
        try:
            conflict = await self.writers.ensure(desired, owner, over)
        except Conflict:
            if not unready:
                raise
            return ""
        if conflict:
            return f"a Tenant {tenant.name!r} is in the way: {conflict}"
        if before is not None:
            await self._remove_additions(desired)
        return ""

    async def _remove_additions(self, desired: Desired) -> None:
        """Remove from a Tenant's spec what was added by hand, which an apply leaves alone."""
        entry = self.writers.control.look(desired)
        if entry is None:
            return
        paths = added_paths(entry.field("spec") or {}, desired.manifest["spec"])
        if paths:
            patch = removal_patch(entry.resource_version, paths)
            await self.writers.patcher.patch_json(desired.mapping, entry, patch)
