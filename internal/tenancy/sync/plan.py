"""Rows × templates × existing tenants: what to create, update and delete, and what to hold back.

A failed query is no input to a plan; it leaves everything as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, replace
from enum import StrEnum

from internal.tenancy.rows.row import ActiveRow, Reading
from internal.tenancy.shared.naming import IllegalName, tenant_name
from internal.tenancy.shared.tally import TenantState
from internal.tenancy.sync.deletion_guard import Guard, Held
from internal.tenancy.sync.departures import (
    Delete,
    Elsewhere,
    Move,
    Replacement,
    decide_departures,
    is_same_pair,
)
from internal.tenancy.sync.plan_inputs import DesiredTenant, ExistingTenant, Template
from internal.tenancy.sync.replacements import Awaited


class UpdateReason(StrEnum):
    """Why a tenant is written again."""

    DATA = "DataUpdated"
    TEMPLATE = "TemplateApplied"
    EDITED = "SpecRestored"
    ROLLBACK = "TemplateRolledBack"


@dataclass(frozen=True, slots=True)
class Update:
    """A tenant to write, and why."""

    tenant: DesiredTenant
    reasons: tuple[UpdateReason, ...]
    unready: bool = False
    """By a rollout, in which it took no place among those that change at once, as it was not ready."""


@dataclass(frozen=True, slots=True)
class ValueRemoval:
    """A tenant that loses objects of the named entries of its template, because its row changed.

    `counted`: the row counts for the guard's window.
    """

    name: str
    uid: str
    template: str
    entries: frozenset[str]
    counted: bool = True


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, in a stable order.

    `waiting` are tenants whose names are still taken by others that go. `replacements` are tenants that go
    once others are ready, and `unpaired` those that stay after all.
    """

    creates: tuple[DesiredTenant, ...] = ()
    updates: tuple[Update, ...] = ()
    deletes: tuple[Delete, ...] = ()
    desired: int = 0
    held: Held | None = None
    override_used: bool = False
    waiting: tuple[DesiredTenant, ...] = ()
    problems: tuple[str, ...] = ()
    replacements: tuple[Replacement, ...] = ()
    unpaired: tuple[str, ...] = ()
    unchanged: tuple[DesiredTenant, ...] = ()
    """Tenants that are as they should be."""
    moves: tuple[Move, ...] = ()
    """Tenants that move to other data planes."""
    without_template: tuple[str, ...] = ()
    """Tenants that stay although their template was deleted."""
    value_removals: tuple[ValueRemoval, ...] = ()
    """Tenants among the updates that lose objects by them."""
    undesired: tuple[str, ...] = ()
    """Tenants that are there and not desired, be it that they go or that something holds their deletion."""

    @property
    def replaced(self) -> tuple[Replacement, ...]:
        """The replacements that the guard does not hold."""
        return tuple(item for item in self.replacements if not item.held)

    @property
    def moving(self) -> tuple[Move, ...]:
        """The tenants that are not deleted, as they move to other data planes."""
        return tuple(item for item in self.moves if item.to)

    @property
    def removes(self) -> bool:
        """Whether a tenant or an object of one goes that the guard lets go."""
        return bool(self.deletes or self.replaced or self.value_removals)

    def missing(self, templates: Iterable[str]) -> dict[str, set[str]]:
        """Return the names of the tenants that are wanted and do not exist, by template."""
        found: dict[str, set[str]] = {template: set() for template in templates}
        for tenant in (*self.creates, *self.waiting):
            found.setdefault(tenant.template.name, set()).add(tenant.name)
        return found

    def released(self, before: frozenset[str]) -> frozenset[str]:
        """Tenants that an approval has released and that are still to be deleted; `before`: by earlier ones."""
        going = frozenset(item.name for item in self.deletes)
        going |= {item.tenant for item in self.replaced}
        going |= {item.name for item in self.value_removals}
        return going if self.override_used else before & going


def plan(
    reading: Reading,
    templates: Sequence[Template],
    existing: Sequence[ExistingTenant],
    guard: Guard | None = None,
    elsewhere: Elsewhere | None = None,
) -> Plan:
    """Return what brings the registry's tenants to `rows × templates`. Pure; equal input gives equal output."""
    problems: list[str] = []
    desired = _desired(reading.active, templates, existing, problems)
    present = {tenant.name: tenant for tenant in existing}
    creates = [desired[name] for name in desired if name not in present]
    kept = [tenant for tenant in existing if is_same_pair(desired.get(tenant.name), tenant)]
    staying = {tenant.name for tenant in kept if not tenant.deleting}
    waiting = [desired[name] for name in desired if name in present and name not in staying]
    updates = [
        Update(desired[tenant.name], reasons)
        for tenant in kept
        if not tenant.deleting and (reasons := _changes(desired[tenant.name], tenant))
    ]
    outdated = {item.tenant.name for item in updates}
    leaving = decide_departures(
        reading, desired, templates, existing, guard or Guard(), elsewhere or Elsewhere()
    )
    return Plan(
        tuple(sorted(creates, key=lambda item: item.name)),
        tuple(sorted(updates, key=lambda item: item.tenant.name)),
        leaving.deletes,
        len(desired) + _held_rows(reading, existing),
        leaving.held,
        leaving.override_used,
        tuple(sorted(waiting, key=lambda item: item.name)),
        tuple(problems),
        _with_creates(leaving.replacements, {item.name for item in creates}),
        leaving.unpaired,
        tuple(
            desired[tenant.name]
            for tenant in sorted(kept, key=lambda item: item.name)
            if not tenant.deleting and tenant.name not in outdated
        ),
        leaving.moves,
        leaving.without_template,
        undesired=tuple(
            tenant.name
            for tenant in sorted(existing, key=lambda item: item.name)
            if tenant.name not in desired and tenant.uid not in reading.held
        ),
    )


def _with_creates(
    replacements: Sequence[Replacement], creates: Set[str]
) -> tuple[Replacement, ...]:
    """Return the replacements, with tenants that are made now as what they are then: not ready yet."""

    def seen(item: Awaited) -> Awaited:
        pending = item.state is None and item.name in creates
        return Awaited(item.name, TenantState.PENDING) if pending else item

    return tuple(
        replace(item, awaited=tuple(seen(other) for other in item.awaited)) for item in replacements
    )


def _desired(
    rows: Sequence[ActiveRow],
    templates: Sequence[Template],
    existing: Sequence[ExistingTenant],
    problems: list[str],
) -> dict[str, DesiredTenant]:
    """Tenants by name. A name two pairs want goes to the pair that has it, else to the first."""
    holders = {tenant.name: (tenant.uid, tenant.template) for tenant in existing}
    wanted: dict[str, DesiredTenant] = {}
    for template in sorted(templates, key=lambda item: item.name):
        for row in rows:
            try:
                name = tenant_name(row.uid, template.name)
            except IllegalName as error:
                problems.append(f"uid {row.uid!r}: {error}")
                continue
            tenant = DesiredTenant(name, template, row)
            rival = wanted.get(name)
            if rival is None:
                wanted[name] = tenant
                continue
            if holders.get(name) == (row.uid, template.name):
                wanted[name], tenant = tenant, rival
            problems.append(
                f"uid {tenant.row.uid!r} with template {tenant.template.name!r} gets no tenant: the "
                f"name {name!r} belongs to uid {wanted[name].row.uid!r} with template "
                f"{wanted[name].template.name!r}"
            )
    return wanted


def _changes(desired: DesiredTenant, tenant: ExistingTenant) -> tuple[UpdateReason, ...]:
    reasons: list[UpdateReason] = []
    row = desired.row
    same_pair = (tenant.uid, tenant.template) == (row.uid, desired.template.name)
    secrets = dict(tenant.sensitive or {})
    if (
        not same_pair
        or dict(tenant.variables) != dict(row.variables)
        or secrets != dict(row.sensitive)
    ):
        reasons.append(UpdateReason.DATA)
    if tenant.version != desired.template.version:
        reasons.append(UpdateReason.TEMPLATE)
    if not tenant.intact:
        reasons.append(UpdateReason.EDITED)
    return tuple(reasons)


def _held_rows(reading: Reading, existing: Sequence[ExistingTenant]) -> int:
    """Count the tenants that stay as they are because their rows are in doubt."""
    return sum(tenant.uid in reading.held and not tenant.deleting for tenant in existing)
