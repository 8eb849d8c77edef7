"""Rows and plans: which rows count, what is created, updated and deleted, and what the guard holds."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apis.tenancy import TenantRegistrySpec
from internal.removal_holds import approval_error
from internal.tenancy.rows.row import (
    FALSY,
    LARGEST_VALUE,
    TRUTHY,
    Reading,
    Row,
    RowProblem,
    columns,
    mapping_problems,
    read,
)
from internal.tenancy.shared.tally import TenantState
from internal.tenancy.sync.deletion_guard import Guard, GuardReason
from internal.tenancy.sync.departures import DeleteReason
from internal.tenancy.sync.plan import Plan, UpdateReason, plan
from internal.tenancy.sync.plan_inputs import ExistingTenant, Template
from internal.tenancy.sync.removal_window import RecentRemovals

WEB, API = Template("web", "1"), Template("api", "1")


def spec(**extra: object) -> TenantRegistrySpec:
    return TenantRegistrySpec.model_validate(
        {
            "source": {"type": "sqlite", "sqlite": {"path": "x", "table": "t"}},
            "valueMappings": {"uid": "id", "activate": "on", "hostOrUrl": "url"},
            "extraValueMappings": extra,
        }
    )


def row(uid: str | None, on: str | None = "1", **values: str | None) -> Row:
    return Row({"id": uid, "on": on, "url": None, **values})


def reading(*uids: str) -> Reading:
    return read([row(uid) for uid in uids], spec())


def carried_out(made: Plan, existing: list[ExistingTenant]) -> list[ExistingTenant]:
    """The cluster after the plan."""
    gone = {item.name for item in made.deletes}
    written = [*made.creates, *(item.tenant for item in made.updates)]
    names = {item.name for item in written}
    kept = [item for item in existing if item.name not in gone | names]
    return kept + [
        ExistingTenant(
            name=item.name,
            uid=item.row.uid,
            template=item.template.name,
            version=item.template.version,
            variables=item.row.variables,
            sensitive=item.row.sensitive,
            state=TenantState.READY,
        )
        for item in written
    ]


def fleet(uids: list[str], *templates: Template) -> list[ExistingTenant]:
    return carried_out(plan(reading(*uids), templates or (WEB,), []), [])


@pytest.mark.criterion("ROWS-TRUTH")
@pytest.mark.parametrize("value", ["1", "true", "TRUE", "True", "yes", "YES", "Yes"])
def test_exactly_these_values_are_active(value: str) -> None:
    assert [found.uid for found in read([row("a", value)], spec()).active] == ["a"]


@pytest.mark.criterion("ROWS-TRUTH")
@given(st.text(max_size=6).filter(lambda text: text not in TRUTHY))
def test_no_other_value_is_active_and_unknown_ones_are_held(value: str) -> None:
    found = read([row("a", value)], spec())
    assert found.active == ()
    assert found.inactive == ({"a"} if value in FALSY else set())
    assert found.held == (set() if value in FALSY else {"a"})
    assert found.invalid_rows == len(found.held)


@pytest.mark.criterion("BAD-UID")
def test_null_empty_duplicate_and_illegal_uids_are_reported_and_the_others_go_on() -> None:
    bad = ["Upper", "under_score", "-dash", "a@b", "a b", "{{ uid }}", "x" * 64, "ü", "a\n", "a..b"]
    rows = [row(None), row(""), row("a", host="first"), row("a", host="second")]
    found = read([*rows, *(row(uid) for uid in bad), row("b")], spec())
    assert [item.uid for item in found.active] == ["b"]
    assert found.held == {"a"}
    assert found.total == 5 + len(bad)
    assert found.invalid_rows == 4 + len(bad)
    assert found.unidentified == 2 + len(bad)
    problems = [item.problem for item in found.invalid]
    assert problems == [
        RowProblem.DUPLICATE_UID,
        *[RowProblem.ILLEGAL_UID] * len(bad),
        RowProblem.MISSING_UID,
        RowProblem.MISSING_UID,
    ]
    assert "2 rows with DuplicateUid (uid 'a' in 2 rows): keep one" in found.problems(1)[0]


@pytest.mark.criterion("BAD-1MIB")
def test_a_value_of_one_mebibyte_is_reported_and_its_tenant_stays() -> None:
    existing = fleet(["a", "b", "c"])
    rows = [row("a", blob="x" * 1024 * 1024), row("b", blob="x" * LARGEST_VALUE), row("c", blob="")]
    found = read(rows, spec(blob="blob"))
    assert [item.uid for item in found.active] == ["b", "c"]
    assert found.invalid[0].problem is RowProblem.VALUE_TOO_LARGE
    assert "xxx" not in found.invalid[0].subject
    made = plan(found, [WEB], existing)
    assert made.deletes == ()


@pytest.mark.criterion("ROWS-VARIABLES")
def test_variables_of_a_row() -> None:
    found = read([row("a", url="https://a.example:8443/x", plan=None)], spec(planId="plan"))
    assert dict(found.active[0].variables) == {
        "uid": "a",
        "activate": "1",
        "hostOrUrl": "https://a.example:8443/x",
        "host": "a.example",
        "planId": "",
    }


@pytest.mark.criterion("ROWS-VARIABLES")
def test_an_unmapped_or_empty_host_is_not_defined() -> None:
    assert "host" not in read([row("a")], spec()).active[0].variables


@pytest.mark.criterion("SENSITIVE")
def test_sensitive_values_are_kept_apart_and_out_of_every_representation() -> None:
    found = read([row("a", pw="hunter2")], spec(password={"column": "pw", "sensitive": True}))
    active = found.active[0]
    assert "password" not in active.variables
    assert active.sensitive == {"password": "hunter2"}
    made = plan(found, [WEB], [])
    assert "hunter2" not in f"{found}{active}{made}{row('a', pw='hunter2')}"


@pytest.mark.criterion("ROWS-COLUMNS")
def test_only_mapped_columns_are_selected_each_once() -> None:
    assert columns(spec(a="x", b="id", c={"column": "y"})) == ("id", "on", "url", "x", "y")


@pytest.mark.criterion("ROWS-RESERVED")
def test_extra_mappings_cannot_take_over_the_registrys_variables() -> None:
    taken = spec(uid="other", ok="x")
    assert "uid" in mapping_problems(taken)[0]
    assert read([row("a", other="b")], taken).active[0].variables["uid"] == "a"


uids = st.lists(st.from_regex(r"[a-c]{1,2}(-[a-c])?", fullmatch=True), max_size=8, unique=True)
names = st.lists(st.sampled_from(["t", "u", "a-t"]), max_size=3, unique=True)


@pytest.mark.criterion("PLAN-CONVERGES")
@given(uids, names, uids, names)
def test_a_plan_carried_out_leaves_nothing_to_do(
    before: list[str], old: list[str], after: list[str], new: list[str]
) -> None:
    anything = Guard(percent=100, allow_empty=True, templates_approved=True)
    cluster = fleet(before, *[Template(name, "1") for name in old])
    templates = [Template(name, "2") for name in new]
    for _ in range(3):  # a name that changes hands is deleted first, what is replaced last
        cluster = carried_out(plan(reading(*after), templates, cluster, anything), cluster)
    made = plan(reading(*after), templates, cluster, anything)
    assert (made.creates, made.updates, made.deletes, made.waiting) == ((), (), (), ())
    assert made.desired == len(cluster)
    assert made.desired + len(made.problems) == len(after) * len(new)


@pytest.mark.criterion("PLAN-DISJOINT")
@given(uids, uids, st.integers(0, 100), st.integers(0, 3))
def test_a_plan_never_removes_more_than_the_guard_allows(
    before: list[str], after: list[str], percent: int, rows: int
) -> None:
    existing = fleet(before, WEB, API)
    made = plan(reading(*after), [WEB, API], existing, Guard(percent=percent, rows=rows))
    groups = [
        {item.name for item in made.creates},
        {item.tenant.name for item in made.updates},
        {item.name for item in made.deletes},
    ]
    assert sum(map(len, groups)) == len(set().union(*groups))
    gone = {item.name.rpartition("-")[0] for item in made.deletes}
    assert len(gone) <= max(rows, len(before) * percent // 100)
    if before and not after:
        assert not made.deletes
    assert (made.held is None) or not made.deletes


@pytest.mark.criterion("PLAN-ORDER")
@given(st.permutations(["a", "b", "c", "d"]))
def test_the_order_of_rows_and_tenants_does_not_matter(order: list[str]) -> None:
    existing = fleet(["c", "d", "e"])
    expected = plan(reading("a", "b", "c", "d"), [WEB], existing)
    assert plan(reading(*order), [WEB], existing[::-1]) == expected


@pytest.mark.criterion("PLAN-ONE-ROW")
def test_one_changed_row_writes_only_its_own_tenant() -> None:
    existing = fleet(["a", "b", "c"])
    changed = read([row("a"), row("b", url="https://b"), row("c")], spec())
    made = plan(changed, [WEB], existing)
    assert [item.tenant.name for item in made.updates] == ["b-web"]
    assert made.updates[0].reasons == (UpdateReason.DATA,)
    assert made.creates == ()
    assert made.deletes == ()


@pytest.mark.criterion("PLAN-REASONS")
def test_templates_secrets_and_hand_edits_are_updates() -> None:
    existing = fleet(["a"])
    assert plan(reading("a"), [Template("web", "2")], existing).updates[0].reasons == (
        UpdateReason.TEMPLATE,
    )
    edited = [replace(existing[0], intact=False, sensitive={"x": "old"})]
    assert plan(reading("a"), [WEB], edited).updates[0].reasons == (
        UpdateReason.DATA,
        UpdateReason.EDITED,
    )


@pytest.mark.criterion("GUARD-EMPTY")
@pytest.mark.parametrize("count", [1, 3, 100])
def test_an_empty_result_removes_nothing_and_gives_the_numbers(count: int) -> None:
    existing = fleet([f"u{number}" for number in range(count)], WEB, API)
    made = plan(reading(), [WEB, API], existing)
    assert made.deletes == ()
    assert made.held is not None
    assert made.held.reason is GuardReason.EMPTY_RESULT
    assert (made.held.tenants, made.held.of_tenants) == (2 * count, 2 * count)
    shown = sorted(item.name for item in existing)[:10]
    more = f" and {2 * count - 10} more" if count > 5 else ""
    assert made.held.message.endswith(f"Held: {', '.join(shown)}{more}")


@pytest.mark.criterion("GUARD-PERCENT")
@pytest.mark.parametrize(
    ("total", "gone", "removed"),
    [
        (1, 1, True),
        (2, 1, True),
        (3, 1, True),
        (3, 2, False),
        (9, 2, False),
        (10, 2, True),
        (10, 3, False),
        (1000, 200, True),
        (1000, 201, False),
    ],
)
def test_a_fifth_may_go_at_once_and_always_one_row(total: int, gone: int, removed: bool) -> None:
    names = [f"u{number}" for number in range(total)]
    rows = [row(uid, "0" if number < gone else "1") for number, uid in enumerate(names)]
    made = plan(read(rows, spec()), [WEB], fleet(names))
    assert len(made.deletes) == (gone if removed else 0)
    assert (made.held is None) is removed
    if made.held is not None:
        assert f"{gone} of {total} tenants would be deleted" in made.held.message


@pytest.mark.criterion("GUARD-TEMPLATE")
def test_a_template_that_goes_takes_its_tenants_whatever_the_guard_permits() -> None:
    made = plan(reading("a", "b"), [WEB], fleet(["a", "b"], WEB, API))
    assert [(item.name, item.reason) for item in made.deletes] == [
        ("a-api", DeleteReason.TEMPLATE_GONE),
        ("b-api", DeleteReason.TEMPLATE_GONE),
    ]


@pytest.mark.criterion("GUARD-OVERRIDE")
@pytest.mark.criterion("G-T6")
def test_g_t6_an_approval_is_of_one_set_and_not_of_another_of_the_same_size() -> None:
    existing = [replace(item, object_uid=f"uid-{item.name}") for item in fleet(list("abcde"))]
    shown = plan(reading("d", "e"), [WEB], existing).held
    assert shown is not None
    guard = Guard(allow_delete=shown.digest, registry="registry -n default")
    made = plan(reading("d", "e"), [WEB], existing, guard)
    assert [item.name for item in made.deletes] == ["a-web", "b-web", "c-web"]
    assert made.override_used
    other = plan(reading("a", "e"), [WEB], existing, guard)
    recreated = [replace(item, object_uid=f"new-{item.name}") for item in existing]
    again = plan(reading("d", "e"), [WEB], recreated, guard)
    for refused in (other, again):
        assert (refused.deletes, refused.override_used) == ((), False)
        assert refused.held is not None
        assert refused.held.digest != shown.digest
        assert f"approves another set ({shown.digest}), not this one" in refused.held.message
        assert (
            "run `kubectl annotate tenantregistry registry -n default --overwrite "
            f"tenancy.ctrlruntime.dev/allow-delete={refused.held.digest}`"
        ) in refused.held.message
    assert other.held is not None
    assert other.held.message.endswith("Held: b-web, c-web, d-web")


@pytest.mark.criterion("G-T6")
def test_g_t6_an_approval_lets_nothing_go_that_is_held_for_another_reason() -> None:
    existing = fleet([f"u{number}" for number in range(10)])
    rows = [row(f"u{number}") for number in range(4, 10)]
    recent = RecentRemovals(uids=frozenset({"u0"}), since=datetime(2026, 1, 1, tzinfo=UTC))
    found = read([*rows, row("Bad")], spec())
    held = plan(found, [WEB], existing, Guard(recent=recent)).held
    assert held is not None
    assert held.names == ("u1-web", "u2-web", "u3-web")
    made = plan(found, [WEB], existing, Guard(recent=recent, allow_delete=held.digest))
    assert [item.name for item in made.deletes] == ["u1-web", "u2-web", "u3-web"]
    assert made.held is not None
    assert (made.held.reason, made.held.names) == (GuardReason.UNIDENTIFIED_ROWS, ("u0-web",))


@pytest.mark.criterion("GUARD-OVERRIDE")
def test_what_a_word_let_go_stays_free_to_go_and_nothing_else() -> None:
    held = plan(reading(), [WEB], fleet(["a", "b", "c"])).held
    assert held is not None
    first = plan(reading(), [WEB], fleet(["a", "b", "c"]), Guard(allow_delete=held.digest))
    assert first.override_used
    released = first.released(frozenset())
    assert released == {"a-web", "b-web", "c-web"}
    again = plan(reading(), [WEB], fleet(["b", "c"]), Guard(released=released))
    assert [item.name for item in again.deletes] == ["b-web", "c-web"]
    assert again.held is None
    assert not again.override_used  # it is used up: for what it let go, no other is asked for
    more = plan(reading(), [WEB], fleet(["b", "d"]), Guard(released=released))
    assert [item.name for item in more.deletes] == ["b-web"]
    assert more.held is not None
    assert more.held.tenants == 1
    assert again.released(released) == {"b-web", "c-web"}
    back = plan(reading("b"), [WEB], fleet(["b", "c"]), Guard(released=released))
    assert back.released(released) == {"c-web"}  # whose row came back has to be let go anew


@pytest.mark.criterion("GUARD-OVERRIDE")
@pytest.mark.parametrize("text", ["", "all", "3", "1.5", "9" * 17, "٣" * 16, "A" * 16])
def test_g_t6_an_override_that_is_no_digest_is_refused_with_the_digest_to_use(text: str) -> None:
    assert "16 hex digits" in approval_error(text)
    made = plan(reading(), [WEB], fleet(["a", "b", "c"]), Guard(allow_delete=text))
    assert (made.deletes, made.override_used) == ((), False)
    assert made.held is not None
    assert f"not {text!r}: it approves nothing" in made.held.message
    assert f"allow-delete={made.held.digest}`" in made.held.message
    assert approval_error(None) == approval_error(made.held.digest) == ""


@pytest.mark.criterion("NAME-COLLISION")
def test_of_two_pairs_with_one_name_the_holder_keeps_it_and_the_other_is_reported() -> None:
    templates = [Template("c", "1"), Template("b-c", "1")]
    found = reading("a", "a-b")
    fresh = plan(found, templates, [])
    assert [item.name for item in fresh.creates] == ["a-b-b-c", "a-b-c", "a-c"]
    assert len(fresh.problems) == 1
    assert "'a-b-c' belongs to uid" in fresh.problems[0]
    held = fleet(["a-b"], Template("c", "1"))
    made = plan(found, templates, held)
    assert "uid 'a' with template 'b-c' gets no tenant" in made.problems[0]
    assert "a-b-c" not in {item.name for item in made.creates}


@pytest.mark.criterion("NAME-LONG")
def test_a_name_too_long_is_reported_for_its_pair_only() -> None:
    made = plan(reading("a"), [Template("x" * 252, "1"), WEB], [])
    assert [item.name for item in made.creates] == ["a-web"]
    assert "makes no valid name" in made.problems[0]


@pytest.mark.criterion("PLAN-DELETING")
def test_a_name_still_being_deleted_is_waited_for() -> None:
    existing = [replace(fleet(["a"])[0], deleting=True)]
    made = plan(reading("a"), [WEB], existing)
    assert (made.creates, made.updates, made.deletes) == ((), (), ())
    assert [item.name for item in made.waiting] == ["a-web"]
