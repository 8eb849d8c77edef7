"""From a registry's last rows to what may be created, changed and removed now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from apis.tenancy import TenantRegistry
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.store import Store
from ctrlruntime.events import EventRecorder
from ctrlruntime.queue import Request
from internal.tenancy.compiled_templates import Blueprints
from internal.tenancy.deletion_guard import Guard
from internal.tenancy.deps import Clocks
from internal.tenancy.earlier_content import earlier_content
from internal.tenancy.plan import Plan
from internal.tenancy.registry_state import RegistryState
from internal.tenancy.rollout import Rollouts
from internal.tenancy.rows import Reading
from internal.tenancy.sync_planner import Sync, SyncPlanner
from internal.tenancy.template_rollouts import StagedTemplate, stage
from internal.tenancy.tenants import TenantBuilder


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryPlan:
    """A plan of a registry, and the part of it that may be carried out now."""

    whole: Plan
    allowed: Plan
    """Without what waits for a paused template."""
    builder: TenantBuilder
    templates: Sequence[Entry]
    troubles: list[str]
    """What waits, one sentence each."""


@dataclass(slots=True)
class RegistryPlanner:
    """Stages what a sync would do by the rollouts of its templates. Reads the cache; writes nothing."""

    sync: SyncPlanner
    tenants: Store
    blueprints: Blueprints
    rollouts: Rollouts
    recorder: EventRecorder
    clocks: Clocks

    async def plan(
        self, registry: TenantRegistry, entry: Entry, reading: Reading, state: RegistryState
    ) -> RegistryPlan:
        """Plan with the rows of `reading`; record the plan in the state and for the templates."""
        guard = self._guard(registry, entry, state.released)
        decided = await self.sync.decide(registry, entry, reading, guard)
        made = self._stage(decided, state)
        state.synced.plan, state.synced.templates = made, len(decided.templates)
        request = Request(entry.name, namespace=entry.namespace)
        self.rollouts.planned(request, made.missing(item.name for item in decided.templates))
        made, lost = await self.sync.without_lost_templates(made, entry)
        state.synced.plan = made
        allowed, paused = self.sync.without_paused(made, decided.paused, entry.namespace)
        waiting = self.sync.waiting(made, entry.namespace)
        return RegistryPlan(
            whole=made,
            allowed=allowed,
            builder=decided.builder,
            templates=decided.templates,
            troubles=[*paused, *lost, *waiting, *decided.moved_troubles],
        )

    async def invalid(self, planned: RegistryPlan, registry: TenantRegistry) -> dict[str, str]:
        """Return the templates that must not be rolled out, with the first reason."""
        return await self.blueprints.invalid(planned.templates, registry)

    def is_staging(self, request: Request) -> bool:
        """Return whether a rollout of the registry's templates is not complete."""
        return self.rollouts.is_staging(request)

    def forget(self, request: Request) -> None:
        """Forget a registry that is gone."""
        self.rollouts.forget(request)

    def forget_tenant(self, namespace: str, name: str) -> None:
        """Forget a tenant that is gone."""
        self.sync.existing.forget(namespace, name)

    def _guard(self, registry: TenantRegistry, entry: Entry, released: frozenset[str]) -> Guard:
        def refused(message: str) -> None:
            self.recorder.event(registry, "Warning", "InvalidAnnotation", "Plan", message)

        return self.sync.guard(registry, entry, released, refused)

    def _stage(self, decided: Sync, state: RegistryState) -> Plan:
        """Return the plan with the changes that the templates' rollouts allow now."""
        builder, existing = decided.builder, decided.existing
        staged = {
            item.name: StagedTemplate(builder.version(item.name), strategy)
            for item in decided.templates
            if (strategy := self.blueprints.strategy(item)) is not None
        }
        now = self.clocks.now()
        made, decisions = stage(decided.plan, existing, staged, now)
        registry = Request(builder.registry.metadata.name or "", namespace=builder.namespace)
        self.rollouts.decided(registry, decisions)
        moments = [item.look_again for item in decisions.values() if item.look_again is not None]
        wait = (min(moments) - now).total_seconds() if moments else float("inf")
        state.rollout_due = self.clocks.monotonic() + wait
        tenants = [*made.creates, *(item.tenant for item in made.updates)]
        builder.earlier = earlier_content(
            tenants, existing, partial(self.tenants.get, namespace=builder.namespace)
        )
        return made
