"""The Secrets with the sensitive values of a registry's tenants."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache import Entry, Store
from ctrlruntime.client.errors import APIError
from ctrlruntime.gate import Cause
from ctrlruntime.resources import Owner, SetPolicy, reconcile_set
from internal.tenancy.objects.children import OWNER_INDEX, ChildKinds
from internal.tenancy.objects.values import SECRET, secret_name
from internal.tenancy.shared.deps import Writers
from internal.tenancy.shared.labels import VALUES
from internal.tenancy.shared.outcome import refusal
from internal.tenancy.sync.plan import Plan
from internal.tenancy.sync.plan_inputs import DesiredTenant
from internal.tenancy.sync.tenants import TenantBuilder

TURN: Final = 50
"""Tenants whose specs are decoded before other tasks get a turn."""


@dataclass(slots=True)
class ValueSecrets:
    """Watches, writes and deletes these Secrets."""

    tenants: Store
    children: ChildKinds
    writers: Writers

    async def watch(self, owner: Owner) -> None:
        """Watch the Secrets of a registry; return when they are listed."""
        self.children.use(owner.key, frozenset({SECRET.gvk}))
        await self.children.mapping(SECRET.gvk, owner.key)

    def owned_by(self, owner: Owner) -> list[tuple[RESTMapping, Entry]]:
        """Return the Secrets with values of a registry's tenants."""
        return [each for each in self.children.owned_by(owner.key) if VALUES in each[1].labels]

    async def write(self, tenant: DesiredTenant, builder: TenantBuilder, owner: Owner) -> str:
        """Write a tenant's Secret, if it has sensitive values. Return what prevents it."""
        if not tenant.row.sensitive:
            return ""
        secret = builder.secret(tenant.name, builder.labels(tenant), tenant.row)
        try:
            conflict = await self.writers.ensure(secret, owner)
        except APIError as error:
            return f"the Secret {secret.name!r}: {refusal(error, tenant.row.sensitive)}"
        return f"a Secret {secret.name!r} is in the way: {conflict}" if conflict else ""

    async def clean(self, owner: Owner, made: Plan) -> None:
        """Delete the Secrets of tenants that are gone, or have no sensitive variables any more."""
        current = [entry for _, entry in self.owned_by(owner)]
        if not current:  # and no walk over all tenants
            return
        wanted = {tenant.name for tenant in made.creates if tenant.row.sensitive}
        wanted |= {tenant.name for tenant in made.waiting}
        alive = {secret_name(name) for name in wanted}
        for place, entry in enumerate(self.tenants.by_index(OWNER_INDEX, owner.key), 1):
            if place % TURN == 0:
                await asyncio.sleep(0)
            named = (entry.field("spec") or {}).get("sensitiveVariables") or {}
            alive.add(str(named.get("secretName", "")))
        policy = SetPolicy(delete=lambda entry: entry.name not in alive, cause=Cause.PARENT_DELETED)
        result = await reconcile_set(self.writers.control, current, (), owner, policy)
        result.raise_first()
