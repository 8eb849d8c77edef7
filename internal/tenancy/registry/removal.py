"""Carries out the deletion of a registry: its tenants are deleted, released or kept until an approval."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Final

from pydantic import ValidationError

from apis.fleet.labels import MOVING_TO
from apis.tenancy import Tenant, TenantRegistry
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import APIError
from ctrlruntime.controller.orphan_requests import OrphanRequests
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.gate import Cause, Permit
from ctrlruntime.queue import Request
from ctrlruntime.resources import Definitions, Owner
from ctrlruntime.rollout import ChangeHolds, NoHolds
from internal.tenancy.objects.children import OWNER_INDEX
from internal.tenancy.registry.teardown import (
    Fate,
    Teardown,
    decide_fate,
    is_protected,
    moving_tenants,
    teardown_status,
    waiting_message,
)
from internal.tenancy.registry.value_secrets import ValueSecrets
from internal.tenancy.shared.deps import TenancyStores, Writers
from internal.tenancy.shared.labels import FINALIZER
from internal.tenancy.shared.policies import APPROVE_DELETION
from internal.tenancy.shared.pools import Job
from internal.tenancy.sync.neighbours import owner_of

TURN: Final = 50
"""Tenants whose status is decoded before other tasks get a turn."""
TEARDOWN_RETRY: Final = 10.0
"""Seconds before a refused deletion of a tenant is tried again while its registry is being deleted."""


@dataclass(slots=True)
class RegistryRemoval:
    """Removes the finalizer of a registry once no tenant is tied to it."""

    stores: TenancyStores
    secrets: ValueSecrets
    writers: Writers
    definitions: Definitions
    orphan_requests: OrphanRequests
    clock: Callable[[], datetime]
    holds: ChangeHolds = field(default_factory=NoHolds)
    """What holds deletions from outside."""
    _fates: dict[str, Fate] = field(default_factory=dict)
    """What was decided for the tenants of registries that are being deleted, by UID."""

    async def tear_down(self, entry: Entry) -> Result | None:
        """Delete, release or hold the tenants; let the registry go once none is tied to it."""
        if FINALIZER not in entry.finalizers:
            return None
        owner = owner_of(entry)
        tenants = self._held_by(owner)
        fate = await self._fate(entry, tenants)
        refused: list[str] = []
        frozen = ""
        if fate is Fate.RELEASE:
            await self._release(owner, tenants)
            tenants = []
        elif fate is Fate.DELETE:
            living = [item for item in tenants if item.deletion_timestamp is None]
            frozen = self._frozen(entry, living)
            refused = [frozen] if frozen else await self._delete_all(living, owner)
            refused += [] if frozen else moving_tenants(living)
            tenants = self._held_by(owner)
        if not tenants:
            mapping = TenantRegistry.mapping()
            await self.writers.patcher.remove_finalizer(mapping, entry, FINALIZER)
            return None
        await self._report(entry, fate, tenants, refused)
        # The next tenant to go starts another pass; a refusal is tried again.
        return Result(requeue_after=TEARDOWN_RETRY) if refused and not frozen else None

    def _frozen(self, entry: Entry, living: Sequence[Entry]) -> str:
        """Return the freeze that keeps the tenants, in words; empty: they may be deleted."""
        request = Request(entry.name, namespace=entry.namespace)
        hold = self.holds.waiting(request, entry) if living else None
        self.holds.record(request, 0 if hold is None else len(living))
        return "" if hold is None else f"the deletion of {len(living)} tenants: {hold.message}"

    def forget_gone(self) -> None:
        """Forget what was decided for registries that are gone."""
        present = {item.uid for item in self.stores.registries.list()}
        self._fates = {uid: fate for uid, fate in self._fates.items() if uid in present}

    def _held_by(self, owner: Owner) -> list[Entry]:
        found = self.stores.tenants.by_index(OWNER_INDEX, owner.key)
        return [item for item in found if self.writers.control.holds(item, owner)]

    async def _fate(self, entry: Entry, tenants: Sequence[Entry]) -> Fate:
        """Return what becomes of the tenants; what was approved once stays approved."""
        known = self._fates.get(entry.uid)
        if known is not None:
            return known
        definitions = [
            await self.definitions.of(kind.mapping()) for kind in (TenantRegistry, Tenant)
        ]
        fate = decide_fate(
            Teardown(
                protected=is_protected(entry.field("spec")),
                approval=entry.annotations.get(APPROVE_DELETION, ""),
                orphan=self.orphan_requests.has(entry),
                uninstall=any(each.removes(APPROVE_DELETION) for each in definitions),
                approved_uninstall=any(each.terminating for each in definitions),
                living=sum(item.deletion_timestamp is None for item in tenants),
            )
        )
        if fate is not Fate.HOLD:
            self._fates[entry.uid] = fate
        return fate

    async def _release(self, owner: Owner, tenants: Sequence[Entry]) -> None:
        """Take the registry off its tenants and off the Secrets with their values."""
        await self.secrets.watch(owner)
        items = [(Tenant.mapping(), item) for item in tenants]
        items += self.secrets.owned_by(owner)
        jobs = [
            Job(mapping.gvk.group_kind, partial(self._release_one, mapping, item, owner))
            for mapping, item in items
        ]
        for outcome in await self.writers.pools.run(jobs):
            if isinstance(outcome, Exception):
                raise outcome

    async def _release_one(self, mapping: RESTMapping, item: Entry, owner: Owner) -> None:
        """Release one object, unless the gate holds it: it is a copy then, which goes with no registry."""
        control = self.writers.control
        permit = control.permit(item, owner, Cause.ORPHANED)
        if isinstance(permit, Permit):
            await control.release(mapping, item, owner, permit, labels={}, annotations={})

    async def _delete_all(self, tenants: Sequence[Entry], owner: Owner) -> list[str]:
        """Delete tenants but for those that move. Returns what was refused, one sentence each."""
        tenants = [item for item in tenants if not item.annotations.get(MOVING_TO)]
        kind, mapping = Tenant.gvk().group_kind, Tenant.mapping()
        remove = partial(self.writers.control.remove, cause=Cause.REGISTRY_GONE)
        jobs = [Job(kind, partial(remove, mapping, item, owner)) for item in tenants]
        refused: list[str] = []
        for item, outcome in zip(tenants, await self.writers.pools.run(jobs), strict=True):
            if isinstance(outcome, APIError):
                refused.append(f"{item.name} (its deletion was refused: {outcome.message})")
            elif isinstance(outcome, Exception):
                raise outcome
        return refused

    async def _report(
        self, entry: Entry, fate: Fate, tenants: Sequence[Entry], refused: Sequence[str]
    ) -> None:
        try:
            before = entry.typed(TenantRegistry).status
        except ValidationError:
            return  # nothing can be compared with a status that cannot be read
        waiting: dict[str, str] = {}
        for place, item in enumerate(tenants, 1):
            if why := waiting_message(item):
                waiting[item.name] = why
            if place % TURN == 0:
                await asyncio.sleep(0)
        given, now = (before, fate, tenants, refused), self.clock()
        status = teardown_status(*given, waiting=waiting, generation=entry.generation, now=now)
        await self.writers.statuses.write(TenantRegistry.mapping(), entry, before, status)
