"""Changes of a registry's tenants that a freeze or a closed maintenance window holds. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from apis.tenancy import TenantRegistry
from apis.windows import windows_of
from ctrlruntime.rollout import BadWindow, ChangeKind, Decision, Reason, Waiting, closed_window
from internal.tenancy.sync.plan import Plan, Update, UpdateReason


@dataclass(frozen=True, slots=True)
class HeldPlan:
    """The part of a plan that may be carried out, and how many changes wait."""

    allowed: Plan
    changes: int = 0


def window_hold(registry: TenantRegistry, now: datetime) -> Waiting | None:
    """Return why changes wait for a maintenance window of the registry; windows that cannot be used are closed."""
    try:
        windows = windows_of(registry.spec.maintenance_windows, "spec.maintenanceWindows")
    except BadWindow as error:
        return Waiting(Reason.WINDOW, f"no maintenance window can be used: {error}")
    return closed_window(windows, now)


def without_held(made: Plan, hold: Waiting | None, decisions: Mapping[str, Decision]) -> HeldPlan:
    """Return the plan without changes of tenants that exist.

    New tenants are created, but for those that replace others, and specs that were edited by hand are restored.
    """
    if hold is None:
        return HeldPlan(made)
    updates = tuple(item for item in made.updates if _goes_on(item, hold))
    replacing = {other.name for item in made.replacements for other in item.awaited}
    allowed = replace(
        made,
        creates=tuple(item for item in made.creates if item.name not in replacing),
        updates=updates,
        deletes=(),
        replacements=(),
    )
    dropped = len(made.updates) - len(updates) + len(made.deletes) + len(made.replaced)
    staged = sum(
        item.reason is hold.reason for each in decisions.values() for item in each.waiting.values()
    )
    back = sum(len(each.returning) for each in decisions.values() if each.frozen is not None)
    return HeldPlan(allowed, dropped + staged + back)


def _goes_on(update: Update, hold: Waiting) -> bool:
    change = update.tenant.change
    if change is not None and change.kind is ChangeKind.ROLLBACK:
        return hold.reason is Reason.WINDOW
    return set(update.reasons) <= {UpdateReason.EDITED}
