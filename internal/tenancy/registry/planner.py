"""From a registry's last rows to what may be created, changed and removed now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from apis.operations import EXEMPT
from apis.tenancy import TenantRegistry
from apis.waiting import changes_waiting
from ctrlruntime.api.scalars import time_or_none
from ctrlruntime.cache import Entry, Store
from ctrlruntime.events import EventRecorder
from ctrlruntime.queue import Request
from ctrlruntime.rollout import (
    ChangeHolds,
    Decision,
    NoHolds,
    ObservedClock,
    OnHalt,
    Reason,
    Waiting,
)
from internal.tenancy.registry.earlier_content import earlier_content
from internal.tenancy.registry.held_changes import window_hold, without_held
from internal.tenancy.registry.state import PlannedFor, RegistryState
from internal.tenancy.registry.sync_planner import Sync, SyncPlanner
from internal.tenancy.rows.row import Reading
from internal.tenancy.shared.deps import Clocks
from internal.tenancy.shared.labels import RESUMED_AT
from internal.tenancy.shared.policies import ALLOW_DELETE
from internal.tenancy.shared.rollout import Rollouts
from internal.tenancy.shared.slices import beside_loop, let_go
from internal.tenancy.sync.deletion_guard import Guard
from internal.tenancy.sync.plan import Plan
from internal.tenancy.sync.plan_inputs import ExistingTenant
from internal.tenancy.sync.removal_window import recent_of, recent_values_of
from internal.tenancy.sync.row_rollouts import restorable
from internal.tenancy.sync.tenants import Blueprint, TenantBuilder
from internal.tenancy.template.compiled import Blueprints
from internal.tenancy.template.health import TemplateHealth
from internal.tenancy.template.revisions import TemplateRevisions, WantedRevisions
from internal.tenancy.template.rollouts import StagedTemplate, members_of, stage, versions_of


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
    revisions: Sequence[WantedRevisions] = ()
    """The content to record before tenants change."""


@dataclass(slots=True)
class RegistryPlanner:
    """Stages what a sync would do by the rollouts of its templates. Reads the cache; writes nothing."""

    sync: SyncPlanner
    tenants: Store
    blueprints: Blueprints
    rollouts: Rollouts
    revisions: TemplateRevisions
    recorder: EventRecorder
    clocks: Clocks
    observed: ObservedClock
    """Finds jumps of the clock: what it jumps over is no time that a version took."""
    holds: ChangeHolds = field(default_factory=NoHolds)
    """What holds changes of tenants from outside."""
    health: TemplateHealth = field(default_factory=TemplateHealth)
    """Decides the rollouts with their health checks."""

    async def plan(
        self, registry: TenantRegistry, entry: Entry, reading: Reading, state: RegistryState
    ) -> RegistryPlan:
        """Plan with the rows of `reading`; record the plan in the state and for the templates."""
        guard = self._guard(registry, entry, state.released)
        decided = await self.sync.decide(registry, entry, reading, guard)
        decided.builder.position = state.synced.position
        request = Request(entry.name, namespace=entry.namespace)
        hold = self.holds.waiting(request, entry)
        hold = hold or window_hold(registry, self.clocks.now())
        staged, unusable = await self._staged(decided, hold)
        made, decisions = await self._stage(decided, staged, state, hold)
        former = [] if (last := state.synced.plan) is None else [*last.unchanged, *last.updates]
        last = None
        state.synced.plan, state.synced.templates = made, len(decided.templates)
        await let_go(former)
        self.rollouts.planned(request, made.missing(item.name for item in decided.templates))
        made, lost = await self.sync.without_lost_templates(made, entry)
        state.synced.plan = made
        allowed, paused = self.sync.without_paused(made, decided.paused, entry.namespace)
        held = without_held(allowed, hold, decisions)
        frozen = hold is not None and hold.reason is Reason.FROZEN
        self.holds.record(request, held.changes if frozen else 0)
        state.synced.waiting = changes_waiting(hold, held.changes)
        if hold is not None:  # an approval of deletions is used when they are made
            made = replace(made, override_used=False)
        waiting = self.sync.waiting(made, entry.namespace)
        return RegistryPlan(
            whole=made,
            allowed=held.allowed,
            builder=decided.builder,
            templates=decided.templates,
            troubles=[
                *unusable_windows(hold),
                *paused,
                *lost,
                *waiting,
                *decided.moved_troubles,
                *unusable,
            ],
            revisions=self._wanted_revisions(decided, staged),
        )

    async def record(self, planned: RegistryPlan) -> tuple[dict[str, str], list[str]]:
        """Record the content of templates with a rollout.

        Returns the templates whose tenants must not change before it is recorded, with the reason, and what
        could not be recorded of the others, one sentence each.
        """
        held: dict[str, str] = {}
        troubles: list[str] = []
        for wanted in planned.revisions:
            trouble = await self.revisions.record(wanted)
            name = wanted.template.name
            if trouble and wanted.required:
                held[name] = trouble
            elif trouble:
                troubles.append(f"template {name!r}: {trouble}")
        return held, troubles

    async def invalid(self, planned: RegistryPlan, registry: TenantRegistry) -> dict[str, str]:
        """Return the templates that must not be rolled out, with the first reason."""
        return await self.blueprints.invalid(planned.templates, registry)

    def is_due(
        self, request: Request, registry: TenantRegistry, entry: Entry, state: RegistryState
    ) -> bool:
        """Return whether to plan again, and record what the next plan is made with."""
        now = self.clocks.now()
        given = tuple(entry.annotations.get(name) for name in (ALLOW_DELETE, EXEMPT))
        recent = recent_of(registry, now).rows + recent_values_of(registry, now).rows
        inputs = PlannedFor(entry.generation, given, recent)
        state.replan |= self.rollouts.is_staging(request, now)
        return state.needs_plan(inputs, self.clocks.monotonic())

    def retry(self, state: RegistryState, refused: Sequence[str]) -> None:
        """Schedule another plan if something could not be written."""
        state.record_refusals(refused, self.clocks.monotonic())

    def forget(self, request: Request) -> None:
        """Forget a registry that is gone."""
        self.rollouts.forget(request)
        self.health.forget(request)
        self.holds.record(request, 0)

    def forget_tenant(self, namespace: str, name: str) -> None:
        """Forget a tenant that is gone."""
        self.sync.existing.forget(namespace, name)

    def _guard(self, registry: TenantRegistry, entry: Entry, released: frozenset[str]) -> Guard:
        def refused(message: str) -> None:
            self.recorder.event(registry, "Warning", "InvalidAnnotation", "Plan", message)

        return self.sync.guard(registry, entry, released, refused)

    async def _staged(
        self, decided: Sync, hold: Waiting | None
    ) -> tuple[dict[str, StagedTemplate], list[str]]:
        """Return the templates with a rollout, and annotations that cannot be used, one sentence each."""
        staged: dict[str, StagedTemplate] = {}
        unusable: list[str] = []
        jumps = self.observed.jumps()
        for item in decided.templates:
            strategy = self.blueprints.strategy(item)
            if strategy is None:
                continue
            target = decided.builder.version(item.name)
            contents = self._contents(decided, item, target)
            rows = self.blueprints.stages_rows(item)
            resumed = item.annotations.get(RESUMED_AT, "")
            if resumed and time_or_none(resumed) is None:
                unusable.append(f"template {item.name!r}: the annotation {RESUMED_AT} is no time")
            known = frozenset(contents)
            if rows:
                tenants, there = decided.existing, known | {target}
                known |= await beside_loop(len(tenants), _restorable, tenants, item.name, there)
            moment = time_or_none(resumed)
            strategy = replace(
                strategy, restorable=known, resumed_at=moment, hold=hold, jumps=jumps
            )
            staged[item.name] = StagedTemplate(target, strategy, contents, rows)
        return staged, unusable

    def _contents(self, decided: Sync, template: Entry, target: str) -> dict[str, Blueprint]:
        """Earlier content of a template: as recorded, else from a tenant that has it."""
        versions = versions_of(decided.existing, template.name, target)
        if not versions:
            return {}
        recorded = self.revisions.recorded(template)
        found = {version: recorded[version] for version in versions & recorded.keys()}
        missing = versions - found.keys()
        entry_of = partial(self.tenants.get, namespace=decided.builder.namespace)
        return found | earlier_content(template.name, missing, decided.existing, entry_of)

    async def _stage(
        self,
        decided: Sync,
        staged: Mapping[str, StagedTemplate],
        state: RegistryState,
        hold: Waiting | None,
    ) -> tuple[Plan, dict[str, Decision]]:
        """Return the plan with the changes that the templates' rollouts allow now, and what was decided."""
        now = self.clocks.now()
        builder = decided.builder
        registry = Request(builder.registry.metadata.name or "", namespace=builder.namespace)
        plan, tenants = decided.plan, decided.existing
        number = len(tenants) + len(plan.creates)
        members = await beside_loop(number, members_of, plan, tenants, staged)
        checked = await self.health.decide(registry, decided.templates, staged, members, now)
        decisions = {name: item.decision for name, item in checked.items()}
        made = await beside_loop(number, stage, plan, tenants, staged, decisions)
        health = {name: item.health for name, item in checked.items() if item.health is not None}
        self.rollouts.decided(registry, decisions, health)
        moments = [item.look_again for item in checked.values() if item.look_again is not None]
        grace = self.sync.grace_ends((registry.namespace, registry.name))
        moments += [] if grace is None else [grace]
        moments += [hold.until] if hold is not None and hold.until is not None else []
        wait = (min(moments) - now).total_seconds() if moments else float("inf")
        state.rollout_due = self.clocks.monotonic() + wait
        builder.earlier = {
            (name, version): content
            for name, item in staged.items()
            for version, content in item.contents.items()
        }
        return made, decisions

    def _wanted_revisions(
        self, decided: Sync, staged: Mapping[str, StagedTemplate]
    ) -> list[WantedRevisions]:
        """Return what to record of each template: the present content, and what its tenants have."""
        found: list[WantedRevisions] = []
        for item in decided.templates:
            present = decided.builder.blueprints.get(item.name)
            if item.name not in staged or item.name in decided.paused or present is None:
                continue
            rollout = staged[item.name]
            wanted = WantedRevisions(
                item,
                present,
                rollout.contents,
                versions_of(decided.existing, item.name, present.revision) | {present.revision},
                required=rollout.strategy.on_halt is OnHalt.ROLLBACK,
            )
            found.append(wanted)
        return found


def _restorable(
    existing: Iterable[ExistingTenant], template: str, contents: frozenset[str]
) -> frozenset[str]:
    """Return the versions that tenants of a template had before, as far as their content is known."""
    return frozenset(restorable(each, contents) for each in existing if each.template == template)


def unusable_windows(hold: Waiting | None) -> list[str]:
    """Return the sentence on maintenance windows that cannot be used; none if nothing is wrong with them."""
    unusable = hold is not None and hold.reason is Reason.WINDOW and hold.until is None
    return [hold.message] if unusable and hold is not None else []
