"""Whether the tenants of a registry that is being deleted go, stay or wait; and what its status reports.

Pure: the reconciler carries out the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from heapq import nsmallest
from typing import Any

from apis.fleet.labels import MOVING_TO
from apis.tenancy import TenantRegistryStatus
from ctrlruntime.api.conditions import new_condition, set_condition, shorten
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller.annotations import PAUSED, is_paused
from ctrlruntime.resources import Definition
from internal.tenancy.shared.outcome import REMOVAL_PENDING
from internal.tenancy.shared.policies import APPROVE_DELETION

MOST_NAMED = 3


class Fate(StrEnum):
    """What becomes of the tenants."""

    DELETE = "delete"
    RELEASE = "release"
    """They stay, without their registry."""
    HOLD = "hold"
    """Nothing is done before a person approves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Teardown:
    """What the decision is made of. `living`: tenants that are not being deleted themselves."""

    protected: bool = True
    approval: str = ""
    orphan: bool = False
    uninstall: bool = False
    """The CRD of registries or tenants goes, without approval that tenants go with it."""
    approved_uninstall: bool = False
    """Such a CRD goes, with approval."""
    living: int = 0


def decide_fate(teardown: Teardown) -> Fate:
    """Decide for all tenants of a registry. In doubt they stay."""
    if teardown.orphan or teardown.uninstall or teardown.approval == "release":
        return Fate.RELEASE
    approved = teardown.approval == "true" or teardown.approved_uninstall
    if teardown.protected and teardown.living and not approved:
        return Fate.HOLD
    return Fate.DELETE


def is_protected(spec: Mapping[str, Any] | None) -> bool:
    """Whether a registry's spec, as stored, requests deletion protection: the default."""
    return (spec or {}).get("deletionProtection") is not False


def teardown_status(
    previous: TenantRegistryStatus,
    fate: Fate,
    tenants: Sequence[Entry],
    refused: Sequence[str] = (),
    *,
    waiting: Mapping[str, str],
    generation: int,
    now: datetime,
) -> TenantRegistryStatus:
    """Return the status of a registry that is being deleted and cannot go yet. `waiting`: why tenants are still there, by name."""
    status = previous.model_copy(deep=True)
    held = fate is Fate.HOLD
    message = _held(tenants) if held else _remaining(tenants, refused, waiting)
    paused = any(is_paused(item.annotations) for item in tenants)
    reason = "TenantsPaused" if paused else "TenantsRemain"
    status.removals_pending = sum(item.deletion_timestamp is not None for item in tenants)
    conditions = [
        new_condition(REMOVAL_PENDING, True, "DeletionProtected" if held else reason, message),
        new_condition("Ready", False, REMOVAL_PENDING, message),
    ]
    for condition in conditions:
        condition.observed_generation = generation
        set_condition(status.conditions, condition, now)
    return status


def waiting_message(tenant: Entry) -> str:
    """Why a tenant that is being deleted is still there; empty if nothing holds it."""
    if is_paused(tenant.annotations):
        return f"it is paused; remove its annotation {PAUSED}"
    status = tenant.field("status") or {}
    for condition in status.get("conditions") or ():
        if condition.get("type") == REMOVAL_PENDING and condition.get("status") == "True":
            return str(condition.get("message", "")).rstrip(".")
    return ""


def moving_tenants(tenants: Sequence[Entry]) -> list[str]:
    """Return which tenants stay until their move to another data plane has ended, one phrase each."""
    return [
        f"{item.name} (it moves to another data plane: run its move again, or with --abort)"
        for item in tenants
        if item.annotations.get(MOVING_TO)
    ]


def _held(tenants: Sequence[Entry]) -> str:
    living = sum(item.deletion_timestamp is None for item in tenants)
    return (
        f"The registry is being deleted and is protected: {_count(living)} would go with it, none was "
        f'deleted. To delete all of them, annotate the registry with {APPROVE_DELETION}: "true"; to '
        f'keep them and let the registry go, with {APPROVE_DELETION}: "release".'
    )


def is_lost(definition: Definition, created: str) -> bool:
    """Whether the template of a tenant created at that time may have gone with its CRD.

    Also after the CRD was installed again: one that is younger than the tenant is not the one that
    its template was of.
    """
    return definition.removes(APPROVE_DELETION) or definition.created > created > ""


def lost_message(template: str, tenants: int) -> str:
    """Return what became of the tenants of a template that went with its CRD, and what to do."""
    return (
        f"template {template!r} is gone with the CRD of its kind: {_count(tenants)} of it stay as they "
        f'are. Apply it again; or, to delete them, annotate the registry with {APPROVE_DELETION}: "true"'
    )


def moved_message(template: str, registry: str, tenants: int) -> str:
    """Return what becomes of the tenants of a template that names another registry now, and what to do."""
    return (
        f"template {template!r} names the registry {registry!r} now: {_count(tenants)} of it stay until "
        "that registry takes them over; delete those that it has no rows for yourself"
    )


def _remaining(tenants: Sequence[Entry], refused: Sequence[str], waiting: Mapping[str, str]) -> str:
    refusing = {each.partition(" ")[0] for each in refused}
    others = (item for item in tenants if item.name not in refusing)
    first = nsmallest(MOST_NAMED, others, key=lambda item: (item.name not in waiting, item.name))
    named = [*refused[:MOST_NAMED]] + [
        f"{item.name} ({waiting.get(item.name, 'it is being deleted')})" for item in first
    ]
    more = f"; and {len(tenants) - MOST_NAMED} more" if len(tenants) > MOST_NAMED else ""
    return shorten(
        f"The registry is being deleted and waits for {_count(len(tenants))}: "
        f"{'; '.join(named[:MOST_NAMED])}{more}."
    )


def _count(number: int) -> str:
    return "1 tenant" if number == 1 else f"{number} tenants"
