"""Rows × templates × existing tenants: what to create, update and delete, and what to hold back.

A failed query is no input to a plan; it leaves everything as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from internal.tenancy.naming import IllegalName, tenant_name
from internal.tenancy.rows import ActiveRow, Reading


@dataclass(frozen=True, slots=True)
class Template:
    """A template of the registry. `version` is anything that changes with its content."""

    name: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingTenant:
    """A tenant of the registry as it stands in the cluster.

    `sensitive` is the content of its Secret, None when there is none. `intact` is false when its
    spec was edited by hand. `deleting` tenants only keep their name taken.
    """

    name: str
    uid: str
    template: str
    version: str
    variables: Mapping[str, str]
    sensitive: Mapping[str, str] | None = field(default=None, repr=False)
    intact: bool = True
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class DesiredTenant:
    """A tenant that should exist, with its row's variables."""

    name: str
    template: Template
    row: ActiveRow


class UpdateReason(StrEnum):
    """Why a tenant is written again."""

    DATA = "DataUpdated"
    TEMPLATE = "TemplateApplied"
    EDITED = "SpecRestored"


class DeleteReason(StrEnum):
    """Why a tenant goes."""

    ROW_GONE = "RowGoneOrInactive"
    TEMPLATE_GONE = "TemplateGone"


@dataclass(frozen=True, slots=True)
class Update:
    """A tenant to write, and why."""

    tenant: DesiredTenant
    reasons: tuple[UpdateReason, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """A tenant to delete, and why."""

    name: str
    reason: DeleteReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """How much one sync may remove: `percent` of the rows, but always `rows` of them.

    `allow_delete` is the operator's explicit word for up to so many tenants. `released` are names of
    tenants that such a word has let go already.
    """

    percent: int = 20
    rows: int = 1
    allow_empty: bool = False
    allow_delete: int | None = None
    released: frozenset[str] = frozenset()


class GuardReason(StrEnum):
    """What the guard stopped."""

    EMPTY_RESULT = "EmptyResult"
    TOO_MANY_DELETIONS = "TooManyDeletions"


@dataclass(frozen=True, slots=True)
class Held:
    """Deletions that the guard holds back."""

    reason: GuardReason
    tenants: int
    of_tenants: int
    rows: int
    of_rows: int
    allowed_rows: int

    @property
    def message(self) -> str:
        """One sentence with the numbers and the way out."""
        cause = (
            "The query returned no rows"
            if self.reason is GuardReason.EMPTY_RESULT
            else f"{self.rows} of {self.of_rows} rows are gone or inactive, {self.allowed_rows} may "
            "go at once"
        )
        return (
            f"{cause}; {self.tenants} of {self.of_tenants} tenants would be deleted, none was. If "
            f"this is meant, annotate the registry with tenancy.ctrlruntime.dev/allow-delete: "
            f'"{self.tenants}"'
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do, in a stable order. `waiting` are names still taken by a tenant being deleted."""

    creates: tuple[DesiredTenant, ...] = ()
    updates: tuple[Update, ...] = ()
    deletes: tuple[Delete, ...] = ()
    desired: int = 0
    held: Held | None = None
    override_used: bool = False
    waiting: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    def released(self, before: frozenset[str]) -> frozenset[str]:
        """Tenants that a word has let go and that are still to be deleted; `before`: by earlier ones."""
        going = frozenset(item.name for item in self.deletes)
        return going if self.override_used else before & going


def parse_allow_delete(annotation: str | None) -> int | None:
    """The number in the override annotation. Raises ValueError, with what to write, for anything else."""
    if annotation is None:
        return None
    text = annotation.strip()
    if not text.isdecimal() or len(text) > 9 or not text.isascii():
        raise ValueError("allow-delete must be the number of tenants that may be deleted")
    return int(text)


def plan(
    reading: Reading,
    templates: Sequence[Template],
    existing: Sequence[ExistingTenant],
    guard: Guard | None = None,
) -> Plan:
    """What brings the registry's tenants to `rows × templates`. Pure; equal input gives equal output."""
    problems: list[str] = []
    desired = _desired(reading.active, templates, existing, problems)
    present = {tenant.name: tenant for tenant in existing}
    creates = [desired[name] for name in desired if name not in present]
    kept = [tenant for tenant in existing if _same_pair(desired.get(tenant.name), tenant)]
    staying = {tenant.name for tenant in kept if not tenant.deleting}
    waiting = [name for name in desired if name in present and name not in staying]
    updates = [
        Update(desired[tenant.name], reasons)
        for tenant in kept
        if not tenant.deleting and (reasons := _changes(desired[tenant.name], tenant))
    ]
    deletes, held, used = _deletes(reading, desired, templates, existing, guard or Guard())
    return Plan(
        tuple(sorted(creates, key=lambda item: item.name)),
        tuple(sorted(updates, key=lambda item: item.tenant.name)),
        tuple(sorted(deletes, key=lambda item: item.name)),
        len(desired),
        held,
        used,
        tuple(sorted(waiting)),
        tuple(problems),
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


def _same_pair(desired: DesiredTenant | None, tenant: ExistingTenant) -> bool:
    """Whether the tenant is the one its name now stands for; another must go before that comes."""
    if desired is None:
        return False
    return (tenant.uid, tenant.template) == (desired.row.uid, desired.template.name)


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


def _deletes(
    reading: Reading,
    desired: Mapping[str, DesiredTenant],
    templates: Sequence[Template],
    existing: Sequence[ExistingTenant],
    guard: Guard,
) -> tuple[list[Delete], Held | None, bool]:
    """Deletions, those the guard holds, and whether the override let them through.

    Only what goes because of rows is guarded: taking a template away is an act in the cluster.
    """
    names = {template.name for template in templates}
    living = [tenant for tenant in existing if not tenant.deleting]
    by_template = [tenant for tenant in living if tenant.template not in names]
    by_row = [tenant for tenant in living if tenant.template in names]
    going = [
        tenant
        for tenant in by_row
        if not _same_pair(desired.get(tenant.name), tenant) and tenant.uid not in reading.held
    ]
    deletes = [Delete(tenant.name, DeleteReason.TEMPLATE_GONE) for tenant in by_template]
    asked = [tenant for tenant in going if tenant.name not in guard.released]
    held = _guarded(reading, asked, by_row, guard)
    if held is not None and guard.allow_delete is not None and len(asked) <= guard.allow_delete:
        held, used = None, True
    else:
        used = False
    free = guard.released if held is not None else frozenset(tenant.name for tenant in going)
    deletes += [Delete(each.name, DeleteReason.ROW_GONE) for each in going if each.name in free]
    return deletes, held, used


def _guarded(
    reading: Reading,
    going: Sequence[ExistingTenant],
    tenants: Sequence[ExistingTenant],
    guard: Guard,
) -> Held | None:
    if not going:
        return None
    rows = len({tenant.uid for tenant in going})
    of_rows = len({tenant.uid for tenant in tenants})
    allowed = max(guard.rows, of_rows * guard.percent // 100)
    empty = reading.total == 0 and not guard.allow_empty
    if not empty and rows <= allowed:
        return None
    reason = GuardReason.EMPTY_RESULT if empty else GuardReason.TOO_MANY_DELETIONS
    return Held(reason, len(going), len(tenants), rows, of_rows, allowed)
