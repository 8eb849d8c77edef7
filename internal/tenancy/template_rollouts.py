"""A plan, staged by the rollouts of its templates: which tenants change now, and which wait. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from internal.tenancy.plan import Plan, Update, UpdateReason
from internal.tenancy.plan_inputs import DesiredTenant, ExistingTenant
from internal.tenancy.tally import TenantState
from internal.tenancy.tenants import Blueprint

CANARY: Final = "canary"

_HEALTH: Final = {
    TenantState.READY: Health.READY,
    TenantState.PENDING: Health.PROGRESSING,
    TenantState.FAILED: Health.FAILED,
}


@dataclass(frozen=True, slots=True)
class StagedTemplate:
    """A template with a rollout: the version to reach, how, and the earlier content that is known by version."""

    version: str
    strategy: Strategy
    contents: Mapping[str, Blueprint] = field(default_factory=dict)


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
    return Member(
        name=tenant.name,
        version=tenant.version,
        health=_HEALTH[tenant.state],
        health_since=tenant.health_since,
        change=tenant.change,
        labels=_labels(tenant.labels, tenant.variables),
        paused=tenant.paused,
    )


def versions_of(tenants: Sequence[ExistingTenant], template: str, target: str) -> frozenset[str]:
    """Return the earlier versions of a template that its tenants have, or that a rollback gives them."""
    found: set[str] = set()
    for tenant in tenants:
        if tenant.template == template and not tenant.deleting:
            found.add(tenant.version)
            if tenant.change is not None:
                found.add(tenant.change.previous)
    return frozenset(found - {"", target})


def members_of(
    made: Plan, existing: Sequence[ExistingTenant], staged: Mapping[str, StagedTemplate]
) -> dict[str, list[Member]]:
    """Return by template the tenants that its rollout changes, or has changed."""
    outdated = {item.tenant.name for item in made.updates if UpdateReason.TEMPLATE in item.reasons}
    members: dict[str, list[Member]] = {name: [] for name in staged}
    for tenant in existing:
        found = staged.get(tenant.template)
        if found is None or tenant.deleting:
            continue
        if tenant.version == found.version or tenant.name in outdated:
            members[tenant.template].append(member_of(tenant))
    return members


def stage(
    made: Plan, existing: Sequence[ExistingTenant], decisions: Mapping[str, Decision]
) -> Plan:
    """Return the plan with the changes of now only, by the decision for each template with a rollout.

    A tenant whose turn has not come keeps the version that it has; changes of its row are made in that one.
    """
    versions = {tenant.name: tenant.version for tenant in existing}
    changes = {item.name: item for each in decisions.values() for item in each.changes}
    updates = [
        _staged_update(item, changes, versions) if item.tenant.template.name in decisions else item
        for item in made.updates
    ]
    updates += (_rolled_back(item, changes.get(item.name)) for item in made.unchanged)
    return replace(
        made,
        updates=tuple(item for item in updates if item is not None),
        creates=tuple(_staged_create(item, decisions) for item in made.creates),
    )


def _staged_create(tenant: DesiredTenant, decisions: Mapping[str, Decision]) -> DesiredTenant:
    decision = decisions.get(tenant.template.name)
    return tenant if decision is None else replace(tenant, version=decision.for_new)


def _staged_update(
    update: Update, changes: Mapping[str, Assignment], versions: Mapping[str, str]
) -> Update | None:
    """Return the update as it is made now; None if there is nothing to do before the tenant's turn."""
    name = update.tenant.name
    change = changes.get(name)
    if change is not None:
        tenant = replace(update.tenant, version=change.version, change=change.change)
        return replace(update, tenant=tenant)
    if UpdateReason.TEMPLATE not in update.reasons:
        return update
    reasons = tuple(each for each in update.reasons if each is not UpdateReason.TEMPLATE)
    if not reasons:
        return None
    return Update(replace(update.tenant, version=versions[name]), reasons)


def _rolled_back(tenant: DesiredTenant, change: Assignment | None) -> Update | None:
    """Return the update of a tenant that a rollback returns; None for any other."""
    if change is None or change.change.kind is not ChangeKind.ROLLBACK:
        return None
    back = replace(tenant, version=change.version, change=change.change)
    return Update(back, (UpdateReason.ROLLBACK,))
