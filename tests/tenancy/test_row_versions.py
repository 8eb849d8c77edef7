"""Versions of tenants whose rows take part in rollouts: what is recorded leads back, and to nothing else."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlruntime.resources import revision
from ctrlruntime.rollout import Assignment, Change, ChangeKind, Health, Member
from internal.tenancy.rows.row import ActiveRow
from internal.tenancy.sync.plan_inputs import (
    AdmittedRow,
    DesiredTenant,
    ExistingTenant,
    RecordedRow,
    Template,
)
from internal.tenancy.sync.row_rollouts import (
    LARGEST,
    assigned,
    format_admitted,
    format_row,
    parse_admitted,
    parse_row,
    restorable,
    row_member,
    version_of,
)

pytestmark = pytest.mark.criterion("G-T9")

NOW = datetime(2026, 3, 1, tzinfo=UTC)
variables = st.dictionaries(st.sampled_from(["plan", "image", "x#y"]), st.text(max_size=4))
secrets = st.dictionaries(st.just("password"), st.text(max_size=3))


def changed(
    tenant: ExistingTenant, wanted: DesiredTenant, kind: ChangeKind, to: str, target: str
) -> ExistingTenant:
    """The tenant after an assignment, as the next pass reads it."""
    previous = version_of(tenant, wanted) if kind is ChangeKind.ROLLOUT else ""
    refused = target if kind is ChangeKind.ROLLBACK else ""
    given = Assignment("a", to, Change(kind, NOW, previous, refused=refused))
    made = assigned(wanted, tenant, given, target)
    kept = None if made.previous_row is None else parse_row(format_row(made.previous_row))
    return replace(
        tenant,
        variables=made.row.variables,
        sensitive=made.row.sensitive,
        version=made.version,
        change=made.change,
        previous_row=kept,
    )


@given(variables, variables, secrets, secrets, st.sampled_from(["one", "two"]))
def test_a_rollback_leads_to_the_row_and_the_content_before_or_nowhere(
    before: dict[str, str],
    after: dict[str, str],
    old: dict[str, str],
    new: dict[str, str],
    content: str,
) -> None:
    target = "two"
    tenant = ExistingTenant(
        name="a", uid="a", template="t", version=content, variables=before, sensitive=old
    )
    wanted = DesiredTenant("a", Template("t", target), ActiveRow("a", after, new))
    there = changed(tenant, wanted, ChangeKind.ROLLOUT, target, target)
    assert (there.variables, there.sensitive, there.version) == (after, new, target)
    back = restorable(there, {"one", "two"})
    assert bool(back) is (old == new)
    assert not restorable(there, {"another"})
    if not back:
        return
    returned = changed(there, wanted, ChangeKind.ROLLBACK, back, target)
    assert (returned.variables, returned.version) == (before, content)
    same = row_member(member(returned), returned, wanted, target, outdated=True)
    assert same.change is not None
    assert same.change.refused == target
    row = ActiveRow("a", {**after, "plan": after.get("plan", "") + "!"}, new)
    other = row_member(member(returned), returned, replace(wanted, row=row), target, outdated=True)
    assert other.change is not None
    # Content that was refused stays so with any row; values of a row alone do not.
    assert (other.change.refused == target) is (content != target)


def member(tenant: ExistingTenant) -> Member:
    return Member(name="a", version=tenant.version, health=Health.READY, change=tenant.change)


@given(variables, st.text(max_size=20))
def test_a_record_that_was_edited_is_none(row: dict[str, str], text: str) -> None:
    assert parse_row(text) is None
    assert parse_row(format_row(RecordedRow("0", row))) is None


@given(variables, secrets, st.text(max_size=20))
def test_what_a_tenant_is_written_with_is_recorded_without_sensitive_values(
    row: dict[str, str], sensitive: dict[str, str], text: str
) -> None:
    recorded = format_admitted("content", ActiveRow("a", row, sensitive))
    assert parse_admitted(recorded) == AdmittedRow("content", row, tuple(sensitive))
    assert parse_admitted(text) is None
    assert parse_admitted(recorded.replace('"revision":"', '"revision":"0')) is None
    assert parse_admitted(format_row(RecordedRow(revision(row), row))) is None


@pytest.mark.parametrize("letter", ["y" * 6, "é"])
def test_a_row_that_is_too_large_for_an_annotation_is_not_recorded(letter: str) -> None:
    row = {"x": letter * (LARGEST // 6)}
    assert not format_admitted("two", ActiveRow("a", row))
    tenant = ExistingTenant(name="a", uid="a", template="t", version="two", variables=row)
    wanted = DesiredTenant("a", Template("t", "two"), ActiveRow("a", {"x": "z"}))
    there = changed(tenant, wanted, ChangeKind.ROLLOUT, "two", "two")
    assert there.previous_row is None
    assert not restorable(there, {"two"})
