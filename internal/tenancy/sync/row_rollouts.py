"""Rows that change with a rollout: the version of a tenant is its template's content and its row's values. Pure.

A tenant that has what it should has the target as its version, any other ``<content>#<row>``. So one target
serves for rows that all differ, and a row that is changed again is another change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace
from typing import Final

from ctrlruntime.intake import DOCUMENT, read_json
from ctrlruntime.resources import revision
from ctrlruntime.rollout import Assignment, ChangeKind, Member
from internal.tenancy.rows.row import ActiveRow
from internal.tenancy.sync.plan_inputs import (
    AdmittedRow,
    DesiredTenant,
    ExistingTenant,
    RecordedRow,
)

SECRETS_DIFFER: Final = "!"
"""Ends the version of a tenant whose sensitive values change: they are recorded nowhere, so it cannot return to them."""
LARGEST: Final = 64 * 1024
"""Characters of a row that is recorded; an annotation has room for 256 KiB with all others."""


@dataclass(frozen=True, slots=True)
class RowVersion:
    """A version of a tenant, apart; `row` is empty for one of the content alone."""

    content: str
    row: str = ""

    @classmethod
    def parse(cls, text: str) -> RowVersion:
        """Read what `str` returned, or a version of the content."""
        content, _, row = text.partition("#")
        return cls(content, row)

    def __str__(self) -> str:
        return f"{self.content}#{self.row}" if self.row else self.content


def version_of(tenant: ExistingTenant, wanted: DesiredTenant) -> str:
    """Return the version of a tenant that does not have what its row and its template want."""
    differ = dict(tenant.sensitive or {}) != dict(wanted.row.sensitive)
    row = revision(dict(tenant.variables)) + (SECRETS_DIFFER if differ else "")
    return str(RowVersion(tenant.version, row))


def row_member(
    member: Member, tenant: ExistingTenant, wanted: DesiredTenant, target: str, *, outdated: bool
) -> Member:
    """Return a tenant as a member of a rollout that its row takes part in.

    What a rollback has refused counts while the row still wants it.
    """
    change = member.change
    if change is not None and change.refused == _refused(target, wanted):
        change = replace(change, refused=target)
    version = version_of(tenant, wanted) if outdated else target
    return replace(member, version=version, change=change)


def restorable(tenant: ExistingTenant, contents: Set[str]) -> str:
    """Return the version that a tenant can go back to; empty if it cannot."""
    if tenant.change is None:
        return ""
    before = RowVersion.parse(tenant.change.previous)
    has_row = not before.row or _variables(tenant, before.row) is not None
    known = before.content in contents and has_row
    return tenant.change.previous if known else ""


def assigned(
    wanted: DesiredTenant, tenant: ExistingTenant, given: Assignment, target: str
) -> DesiredTenant:
    """Return a tenant as it becomes by an assignment, with the record of the row that it had before."""
    if given.change.kind is not ChangeKind.ROLLBACK:
        before = RowVersion.parse(given.change.previous).row
        variables = _variables(tenant, before) if before else None
        kept = None if variables is None else _recorded(before, variables)
        return replace(wanted, version=given.version, change=given.change, previous_row=kept)
    before_version, refused = RowVersion.parse(given.version), target
    if (
        before_version.content == target
    ):  # the row alone had changed: other values of it are not refused
        refused = _refused(target, wanted)
    variables = _variables(tenant, before_version.row) if before_version.row else None
    row = wanted.row
    if variables is not None:
        row = ActiveRow(row.uid, dict(variables), row.sensitive)
    change = replace(given.change, refused=refused)
    return replace(wanted, row=row, version=before_version.content, change=change)


def format_row(row: RecordedRow) -> str:
    """Return a recorded row as the text of an annotation."""
    content = {"revision": row.revision, "variables": dict(row.variables)}
    return json.dumps(content, separators=(",", ":"), sort_keys=True)


def parse_row(text: str) -> RecordedRow | None:
    """Return what `format_row` wrote; None for anything else, such as values that are not those of the revision."""
    try:
        found = read_json(text, DOCUMENT)
        row = RecordedRow(found["revision"], found["variables"])
        return row if revision(dict(row.variables)) == row.revision else None
    except (ValueError, KeyError, TypeError):
        return None


def format_admitted(content: str, row: ActiveRow) -> str:
    """Return what a tenant is written with as the text of an annotation; empty if that is too large."""
    recorded = _recorded(revision(dict(row.variables)), row.variables)
    if recorded is None:
        return ""
    found = {
        "content": content,
        "revision": recorded.revision,
        "sensitive": sorted(row.sensitive),
        "variables": dict(recorded.variables),
    }
    return json.dumps(found, separators=(",", ":"), sort_keys=True)


def parse_admitted(text: str) -> AdmittedRow | None:
    """Return what `format_admitted` wrote; None for anything else."""
    row = parse_row(text)
    if row is None:
        return None
    try:
        found = read_json(text, DOCUMENT)
        return AdmittedRow(str(found["content"]), row.variables, tuple(found["sensitive"]))
    except (KeyError, TypeError):
        return None


def _refused(target: str, wanted: DesiredTenant) -> str:
    return str(RowVersion(target, revision(dict(wanted.row.variables))))


def _variables(tenant: ExistingTenant, row: str) -> Mapping[str, str] | None:
    """Return the variables of that revision: those that the tenant has, or those before; None if not known."""
    if row == revision(dict(tenant.variables)):
        return tenant.variables
    before = tenant.previous_row
    return before.variables if before is not None and before.revision == row else None


def _recorded(row: str, variables: Mapping[str, str]) -> RecordedRow | None:
    size = len(
        json.dumps(dict(variables))
    )  # with what is escaped: a letter may take six characters
    return RecordedRow(row, variables) if size <= LARGEST else None
