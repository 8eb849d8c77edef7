"""A plan, staged by the rollouts of its templates: which tenants change now, and which wait. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from apis.tenancy import TemplateRollout
from apis.windows import windows_of
from ctrlruntime.rollout import (
    Assignment,
    BadWindow,
    ChangeKind,
    Decision,
    Health,
    Member,
    OnHalt,
    Strategy,
    Wave,
    parse_window,
)
from ctrlruntime.rollout.health_checks import health_check_problems
from internal.tenancy.rows.row import ActiveRow
from internal.tenancy.shared.tally import TenantState
from internal.tenancy.sync.plan import Plan, Update, UpdateReason
from internal.tenancy.sync.plan_inputs import DesiredTenant, ExistingTenant
from internal.tenancy.sync.row_rollouts import RowVersion, assigned, row_member
from internal.tenancy.sync.tenants import Blueprint

CANARY: Final = "canary"

_HEALTH: Final = {
    TenantState.READY: Health.READY,
    TenantState.PENDING: Health.PROGRESSING,
    TenantState.FAILED: Health.FAILED,
}


@dataclass(frozen=True, slots=True)
class StagedTemplate:
    """A template with a rollout: the version to reach, how, and the earlier content that is known by version.

    `rows`: changed rows take part.
    """

    version: str
    strategy: Strategy
    contents: Mapping[str, Blueprint] = field(default_factory=dict)
    rows: bool = False

    def changes(self, reasons: Collection[UpdateReason]) -> bool:
        """Whether an update for these reasons waits for the tenant's turn."""
        return UpdateReason.TEMPLATE in reasons or (self.rows and UpdateReason.DATA in reasons)


def rollout_problems(rollout: TemplateRollout | None) -> list[str]:
    """Return what is wrong with maintenance windows and health checks, one sentence each, with the field."""
    if rollout is None:
        return []
    found = health_check_problems(rollout.health_checks, "rollout.healthChecks")
    for number, item in enumerate(rollout.maintenance_windows):
        try:
            parse_window(item.schedule, item.length, item.time_zone)
        except ValueError as error:
            found.append(f"rollout.maintenanceWindows[{number}].{error}")
    return found


def strategy_of(rollout: TemplateRollout) -> Strategy:
    """Return the strategy of a template. With a window that cannot be used, it is paused."""
    try:
        windows = windows_of(rollout.maintenance_windows, "rollout.maintenanceWindows")
    except BadWindow:
        return Strategy(paused=True)
    on_halt, limit = OnHalt(rollout.on_halt.value), rollout.halt_on_failures
    if limit is None and on_halt is OnHalt.ROLLBACK:
        limit = 1
    return Strategy(
        waves=_waves(rollout),
        max_skew=rollout.max_skew or None,
        progress_deadline=timedelta(seconds=rollout.progress_deadline_seconds),
        soak=timedelta(seconds=rollout.soak_seconds),
        halt_on_failures=limit,
        on_halt=on_halt,
        irreversible=rollout.irreversible,
        paused=rollout.pause,
        windows=windows,
        health_checks=tuple(rollout.health_checks),
    )


def _waves(rollout: TemplateRollout) -> tuple[Wave, ...]:
    canary = rollout.canary
    if canary is None:
        return ()
    soak = timedelta(seconds=rollout.soak_seconds)
    if canary.selector is None:
        return (Wave(name=CANARY, percent=canary.percent or 100, soak=soak),)
    labels = _labels(canary.selector.match_labels, canary.selector.match_variables)
    return (Wave(name=CANARY, labels=labels, soak=soak),)


def _labels(labels: Mapping[str, str], variables: Mapping[str, str]) -> dict[str, str]:
    """Return what waves select by: labels and variables, distinguished by their prefix."""
    found = {f"label:{name}": value for name, value in labels.items()}
    return found | {f"variable:{name}": value for name, value in variables.items()}


def member_of(tenant: ExistingTenant) -> Member:
    """Return a tenant as a member of its template's rollout."""
    judged = tenant.judgement
    health = _HEALTH[tenant.state]
    if health is Health.FAILED and not tenant.intact and tenant.admitted is not None:
        # It may fail by an edit that is about to be undone: a refused row would go to it as a fix.
        health = Health.PROGRESSING
    return Member(
        name=tenant.name,
        version=tenant.version,
        health=health,
        health_since=tenant.health_since,
        change=tenant.change,
        labels=_labels(tenant.labels, tenant.variables),
        paused=tenant.paused,
        held=judged.held,
        resumed_at=judged.resumed_at,
        excused=judged.excused,
        was_ready=judged.was_ready,
        causes=judged.causes,
    )


def versions_of(tenants: Sequence[ExistingTenant], template: str, target: str) -> frozenset[str]:
    """Return the earlier versions of a template that its tenants have, or that a rollback gives them."""
    found: set[str] = set()
    for tenant in tenants:
        if tenant.template == template and not tenant.deleting:
            found.add(tenant.version)
            if tenant.change is not None:
                found.add(RowVersion.parse(tenant.change.previous).content)
    return frozenset(found - {"", target})


def members_of(
    made: Plan, existing: Sequence[ExistingTenant], staged: Mapping[str, StagedTemplate]
) -> dict[str, list[Member]]:
    """Return by template the tenants that its rollout changes, or has changed."""
    reasons = {item.tenant.name: item.reasons for item in made.updates}
    wanted = {item.name: item for item in made.unchanged}
    wanted |= {item.tenant.name: item.tenant for item in made.updates}
    members: dict[str, list[Member]] = {name: [] for name in staged}
    for tenant in existing:
        found = staged.get(tenant.template)
        if found is None or tenant.deleting:
            continue
        outdated = found.changes(reasons.get(tenant.name, ()))
        if tenant.version != found.version and not outdated:
            continue
        member, want = member_of(tenant), wanted.get(tenant.name)
        if found.rows and want is not None:
            member = row_member(member, tenant, want, found.version, outdated=outdated)
        members[tenant.template].append(member)
    return members


def stage(
    made: Plan,
    existing: Sequence[ExistingTenant],
    staged: Mapping[str, StagedTemplate],
    decisions: Mapping[str, Decision],
) -> Plan:
    """Return the plan with the changes of now only, by the decision for each template with a rollout.

    A tenant whose turn has not come keeps the version that it has; changes of its row are made in that one, or
    wait as well where rows take part.
    """
    stages = {
        name: _Stage(staged[name], {item.name: item for item in decision.changes}, decision)
        for name, decision in decisions.items()
    }
    tenants = {tenant.name: tenant for tenant in existing}
    updates = [
        update
        if (found := stages.get(update.tenant.template.name)) is None
        else found.update(update, tenants[update.tenant.name])
        for update in made.updates
    ]
    updates += (
        found.rollback(item, tenants[item.name])
        for item in made.unchanged
        if (found := stages.get(item.template.name)) is not None
    )
    creates = (
        item if (found := stages.get(item.template.name)) is None else found.create(item)
        for item in made.creates
    )
    return replace(
        made,
        updates=tuple(item for item in updates if item is not None),
        creates=tuple(creates),
    )


def _is_unready(tenant: ExistingTenant) -> bool:
    return tenant.state is not TenantState.READY


def _repaired_while_waiting(update: Update, tenant: ExistingTenant) -> Update | None:
    """Return what repairs a tenant whose changed row waits, with what it was last written with; None if that is unknown."""
    row, values = update.tenant.row, dict(tenant.sensitive or {})
    known = tenant.sensitive is not None or not row.sensitive
    if tenant.admitted is not None:
        known = tuple(sorted(values)) == tenant.admitted.sensitive
    if UpdateReason.EDITED not in update.reasons or not known:
        return None
    kept = ActiveRow(row.uid, tenant.variables, values)
    return Update(replace(update.tenant, row=kept, version=tenant.version), (UpdateReason.EDITED,))


@dataclass(frozen=True, slots=True)
class _Stage:
    """What a template's rollout lets happen now."""

    template: StagedTemplate
    changes: Mapping[str, Assignment]
    decision: Decision

    def create(self, tenant: DesiredTenant) -> DesiredTenant:
        return replace(tenant, version=RowVersion.parse(self.decision.for_new).content)

    def update(self, update: Update, tenant: ExistingTenant) -> Update | None:
        """Return the update as it is made now; None if there is nothing to do before the tenant's turn."""
        change = self.changes.get(update.tenant.name)
        if change is not None:
            made = self._assigned(update.tenant, tenant, change)
            return replace(update, tenant=made, unready=_is_unready(tenant))
        if not self.template.changes(update.reasons):
            return update
        if self.template.rows and UpdateReason.DATA in update.reasons:
            return _repaired_while_waiting(update, tenant)
        reasons = tuple(each for each in update.reasons if each is not UpdateReason.TEMPLATE)
        return Update(replace(update.tenant, version=tenant.version), reasons) if reasons else None

    def rollback(self, wanted: DesiredTenant, tenant: ExistingTenant) -> Update | None:
        """Return the update of a tenant that a rollback returns; None for any other."""
        change = self.changes.get(wanted.name)
        if change is None or change.change.kind is not ChangeKind.ROLLBACK:
            return None
        made = self._assigned(wanted, tenant, change)
        return Update(made, (UpdateReason.ROLLBACK,), _is_unready(tenant))

    def _assigned(
        self, wanted: DesiredTenant, tenant: ExistingTenant, change: Assignment
    ) -> DesiredTenant:
        if self.template.rows:
            return assigned(wanted, tenant, change, self.template.version)
        return replace(wanted, version=change.version, change=change.change)
