"""Make before break as a decision: which tenants wait for which, by rows, templates and records."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from internal.tenancy.rows.row import LARGEST_VALUE, Reading, Row, read
from internal.tenancy.shared.tally import TenantState
from internal.tenancy.sync.deletion_guard import Guard
from internal.tenancy.sync.departures import Elsewhere
from internal.tenancy.sync.plan import Plan, plan
from internal.tenancy.sync.plan_inputs import ExistingTenant, Template
from internal.tenancy.sync.replacements import MOST_PAIRED, waiting
from tests.tenancy.test_plan import carried_out, row, spec

pytestmark = pytest.mark.criterion("H-A3")

OPEN = Guard(percent=100, allow_empty=True)
EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
OLD, NEW = Template("old", "1", EARLY), Template("new", "1", LATE)
UIDS = ("u1", "u2", "u3", "u4")


def reading(*rows: Row) -> Reading:
    return read(rows, spec())


def hosted(uid: str, host: str, on: str = "1") -> Row:
    return row(uid, on, url=f"https://{host}.example")


def fleet(*rows: Row, template: Template = OLD) -> list[ExistingTenant]:
    """Ready tenants of these rows, made after the first template."""
    return [
        replace(item, created=EARLY)
        for item in carried_out(plan(reading(*rows), [template], []), [])
    ]


def step(made: Plan, existing: list[ExistingTenant], *ready: str) -> list[ExistingTenant]:
    """The cluster after a plan with its records; what it made is not ready unless named."""
    marks = {item.tenant: item for item in made.replacements}
    new = {item.name for item in made.creates}
    found = []
    for tenant in carried_out(made, existing):
        if tenant.name in new:
            tenant = replace(tenant, state=TenantState.PENDING, created=LATE)
        if tenant.name in ready:
            tenant = replace(tenant, state=TenantState.READY)
        if tenant.name in marks:
            mark = marks[tenant.name]
            tenant = replace(
                tenant,
                replaced_by=frozenset(mark.by),
                inherited_by=frozenset(mark.heirs),
                handing_over=not mark.held,
            )
        if tenant.name in made.unpaired:
            tenant = replace(
                tenant, replaced_by=frozenset(), inherited_by=frozenset(), handing_over=False
            )
        found.append(tenant)
    return found


def waits(made: Plan) -> dict[str, list[str]]:
    return {item.tenant: [each.name for each in item.awaited] for item in made.replaced}


def inherits(made: Plan) -> dict[str, list[str]]:
    return {item.tenant: list(item.heirs) for item in made.replaced}


def gone(made: Plan) -> list[str]:
    return [item.name for item in made.deletes]


# -- rows ----------------------------------------------------------------------------------------------


@given(st.permutations(UIDS), st.integers(1, 4), st.booleans(), st.data())
def test_h_a3_no_renamed_row_loses_its_tenant_before_the_new_one_is_ready(
    order: list[str], renamed: int, hosts: bool, data: st.DataObject
) -> None:
    """Whatever becomes ready when, and whichever sync a new manager starts with."""

    def one(uid: str, number: str) -> Row:
        return hosted(uid, f"host-{number}") if hosts else row(uid)

    existing = fleet(*(one(uid, uid) for uid in UIDS))
    names = {uid: f"{uid}-new" for uid in order[:renamed]}
    rows = reading(*(one(names.get(uid, uid), uid) for uid in UIDS))
    ready: set[str] = set()
    for _ in range(6):
        made = plan(rows, [OLD], existing, OPEN)
        assert plan(rows, [OLD], existing[::-1], OPEN) == made
        for uid, new in names.items():
            if f"{new}-old" not in ready:
                assert f"{uid}-old" not in gone(made)
        existing = step(made, existing)
        left = sorted({f"{new}-old" for new in names.values()} - ready)
        if left:
            ready.add(data.draw(st.sampled_from(left)))
        existing = [
            replace(item, state=TenantState.READY) if item.name in ready else item
            for item in existing
        ]
    assert sorted(item.name for item in existing) == sorted(
        f"{names.get(uid, uid)}-old" for uid in UIDS
    )
    final = plan(rows, [OLD], existing, OPEN)
    assert (final.deletes, final.replacements, final.unpaired) == ((), (), ())


def test_h_a3_one_host_finds_its_row_among_all() -> None:
    existing = fleet(hosted("u1", "one"), hosted("u2", "two"))
    made = plan(reading(hosted("z", "one"), hosted("u2", "two")), [OLD], existing, OPEN)
    assert waits(made) == {"u1-old": ["z-old"]}
    assert gone(made) == []


def test_h_a3_a_new_row_with_another_host_holds_nothing() -> None:
    existing = fleet(hosted("u1", "one"), hosted("u2", "two"))
    made = plan(reading(hosted("z", "three"), hosted("u2", "two")), [OLD], existing, OPEN)
    assert gone(made) == ["u1-old"]


def test_h_a3_a_long_failing_tenant_with_equal_values_holds_nothing() -> None:
    existing = fleet(row("u1"), row("u2"))
    failing = [
        replace(item, state=TenantState.FAILED) if item.uid == "u2" else item for item in existing
    ]
    assert gone(plan(reading(row("u2")), [OLD], failing, OPEN)) == ["u1-old"]


def test_h_a3_later_rows_do_not_prolong_the_wait() -> None:
    """What a row without a host is paired with is decided once."""
    existing = fleet(row("u1"), row("u2"))
    made = plan(reading(row("z"), row("u2")), [OLD], existing, OPEN)
    assert waits(made) == {"u1-old": ["z-old"]}
    existing = step(made, existing)
    made = plan(reading(row("z"), row("y"), row("u2")), [OLD], existing, OPEN)
    assert waits(made) == {"u1-old": ["z-old"]}
    existing = step(made, existing, "z-old")
    made = plan(reading(row("z"), row("y"), row("u2")), [OLD], existing, OPEN)
    assert gone(made) == ["u1-old"]


def test_h_a3_an_inactive_row_waits_for_nothing() -> None:
    existing = fleet(hosted("u1", "one"), hosted("u2", "two"))
    found = reading(hosted("u1", "one", "0"), hosted("z", "one"), hosted("u2", "two"))
    assert gone(plan(found, [OLD], existing, OPEN)) == ["u1-old"]


def test_h_a3_a_row_renamed_twice_keeps_the_first_tenant_until_the_last_is_ready() -> None:
    existing = fleet(hosted("u1", "one"), hosted("u2", "two"))
    made = plan(reading(hosted("y", "one"), hosted("u2", "two")), [OLD], existing, OPEN)
    existing = step(made, existing)
    rows = reading(hosted("z", "one"), hosted("u2", "two"))
    made = plan(rows, [OLD], existing, OPEN)
    assert waits(made) == {"u1-old": ["y-old", "z-old"], "y-old": ["z-old"]}
    existing = step(made, existing, "z-old")
    assert gone(plan(rows, [OLD], existing, OPEN)) == ["u1-old", "y-old"]


def test_h_a3_what_the_guard_holds_is_paired_and_hands_nothing_over() -> None:
    existing = fleet(*(row(uid) for uid in UIDS))
    rows = reading(*(row(f"{uid}-new") for uid in UIDS))
    made = plan(rows, [OLD], existing, Guard())
    assert made.held is not None
    assert made.deletes == ()
    assert [item.held for item in made.replacements] == [True] * 4
    existing = step(made, existing)
    assert not any(item.handing_over for item in existing)
    approved = plan(rows, [OLD], existing, Guard(allow_delete=made.held.digest))
    assert approved.override_used
    assert approved.deletes == ()
    assert [item.uid for item in approved.replaced] == [""] * 4
    existing = step(approved, existing)
    later = plan(rows, [OLD], existing, Guard())
    assert later.held is None
    assert len(later.replaced) == 4


def test_h_a3_a_renamed_row_counts_for_the_guard_when_it_is_decided_and_only_once() -> None:
    existing = fleet(hosted("u1", "one"), hosted("u2", "two"))
    rows = reading(hosted("z", "one"), hosted("u2", "two"))
    made = plan(rows, [OLD], existing, Guard())
    assert [item.uid for item in made.replaced] == ["u1"]
    existing = step(made, existing, "z-old")
    done = plan(rows, [OLD], existing, Guard())
    assert [(item.name, item.uid) for item in done.deletes] == [("u1-old", "")]


def test_h_a3_an_empty_result_holds_what_waits_as_well() -> None:
    existing = fleet(hosted("u1", "one"), hosted("u2", "two"))
    made = plan(reading(hosted("z", "one"), hosted("u2", "two")), [OLD], existing, Guard())
    existing = step(made, existing)
    empty = plan(reading(), [OLD], existing, Guard())
    assert empty.deletes == ()
    assert empty.held is not None
    assert empty.held.tenants == 3


def test_h_a3_a_replacement_whose_row_is_in_doubt_is_still_waited_for() -> None:
    existing = fleet(hosted("u1", "one"), hosted("u2", "two"))
    made = plan(reading(hosted("z", "one"), hosted("u2", "two")), [OLD], existing, OPEN)
    existing = step(made, existing)
    doubt = reading(hosted("z", "one", "maybe"), hosted("u2", "two"))
    assert waits(plan(doubt, [OLD], existing, OPEN)) == {"u1-old": ["z-old"]}


@pytest.mark.criterion("SIM-F7")
@pytest.mark.parametrize("doubt", ["activation", "twice", "too large"])
def test_a_row_that_comes_into_doubt_before_its_new_uid_has_a_tenant_is_waited_for(
    doubt: str,
) -> None:
    """A freeze, or a manager that was not there, may lie between the two changes of the row."""
    existing = fleet(hosted("u1", "one"), hosted("u2", "two"))
    renamed = [hosted("z", "one", "maybe" if doubt == "activation" else "1")]
    if doubt == "twice":
        renamed *= 2
    if doubt == "too large":
        renamed = [row("z", url="https://one.example", text="x" * (LARGEST_VALUE + 1))]
    rows = read(
        [*renamed, hosted("u2", "two")], spec(text="text") if doubt == "too large" else spec()
    )
    assert rows.held == {"z"}
    assert waits(plan(rows, [OLD], existing, OPEN)) == {"u1-old": ["z-old"]}


@pytest.mark.criterion("SIM-F7")
@pytest.mark.parametrize("on", ["maybe", "1"], ids=["in doubt", "active"])
def test_of_several_new_rows_with_its_host_a_tenant_waits_for_all(on: str) -> None:
    existing = fleet(row("u1", url="https://one.example", text="a"), hosted("u2", "two"))
    renamed = row("z", url="https://one.example", text="b")
    rows = [renamed, hosted("x", "one", on), hosted("u2", "two")]
    found = read(rows, spec(text="text"))
    assert waits(plan(found, [OLD], existing, OPEN)) == {"u1-old": ["x-old", "z-old"]}


def test_h_a3_a_tenant_is_paired_with_a_bounded_number_of_equal_rows() -> None:
    count = 4 * MOST_PAIRED
    before = [f"{number:04}" for number in range(count)]
    existing = fleet(*(row(uid) for uid in before))
    made = plan(reading(*(row(f"n-{uid}") for uid in before)), [OLD], existing, OPEN)
    assert gone(made) == []
    assert max(len(item.by) for item in made.replacements) == MOST_PAIRED
    for item in made.replacements:  # an order of uids that is kept finds the row itself
        assert f"n-{item.tenant}" in item.by


# -- who inherits ----------------------------------------------------------------------------------------


def former(uid: str, of: str, host: str | None = None) -> Row:
    """A row that names the uid it had before."""
    url = None if host is None else f"https://{host}.example"
    return row(uid, was=of, url=url)


def named(*rows: Row) -> Reading:
    return read(rows, spec(formerUid="was"))


@pytest.mark.criterion("G-T1")
def test_g_t1_rows_that_look_alike_make_a_tenant_wait_and_get_nothing_of_it() -> None:
    existing = fleet(row("acme"), row("zeta"))
    made = plan(reading(row("beta"), row("gamma"), row("zeta")), [OLD], existing, OPEN)
    assert waits(made) == {"acme-old": ["beta-old", "gamma-old"]}
    assert inherits(made) == {"acme-old": []}
    one = plan(reading(row("beta"), row("zeta")), [OLD], existing, OPEN)
    assert (waits(one), inherits(one)) == ({"acme-old": ["beta-old"]}, {"acme-old": []})


@pytest.mark.criterion("G-T1")
def test_g_t1_a_host_is_evidence_only_from_one_uid_to_one_uid() -> None:
    existing = fleet(hosted("u1", "one"), hosted("u2", "two"))
    made = plan(reading(hosted("z", "one"), hosted("u2", "two")), [OLD], existing, OPEN)
    assert inherits(made) == {"u1-old": ["z-old"]}
    twice = reading(hosted("z", "one"), hosted("y", "one"), hosted("u2", "two"))
    assert not any(inherits(plan(twice, [OLD], existing, OPEN)).values())
    both = fleet(hosted("u1", "one"), hosted("u3", "one"), hosted("u2", "two"))
    made = plan(reading(hosted("z", "one"), hosted("u2", "two")), [OLD], both, OPEN)
    assert waits(made) == {"u1-old": ["z-old"], "u3-old": ["z-old"]}
    assert inherits(made) == {"u1-old": [], "u3-old": []}


@pytest.mark.criterion("G-T1")
def test_g_t1_a_column_with_the_former_uid_is_evidence_before_any_host() -> None:
    existing = fleet(hosted("u1", "one"), hosted("u2", "two"))
    rows = named(former("z", "u1"), former("y", "", "one"), hosted("u2", "two"))
    made = plan(rows, [OLD], existing, OPEN)
    assert (waits(made), inherits(made)) == ({"u1-old": ["z-old"]}, {"u1-old": ["z-old"]})
    twice = named(former("z", "u1"), former("y", "u1"), hosted("u2", "two"))
    made = plan(twice, [OLD], existing, OPEN)
    assert waits(made) == {"u1-old": ["y-old", "z-old"]}
    assert inherits(made) == {"u1-old": []}


@pytest.mark.criterion("G-T1")
def test_g_t1_an_annotation_confirms_a_resemblance_for_one_tenant_each() -> None:
    existing = fleet(row("acme"), row("bold"), row("zeta"))
    rows = reading(row("beta"), row("gamma"), row("zeta"))
    made = plan(rows, [OLD], existing, OPEN)
    existing = step(made, existing)

    def confirmed(**heirs: str) -> Plan:
        return plan(
            rows,
            [OLD],
            [
                replace(item, inherited_by=frozenset([heirs[item.uid]]))
                if item.uid in heirs
                else item
                for item in existing
            ],
            OPEN,
        )

    made = confirmed(acme="gamma-old")
    assert waits(made)["acme-old"] == ["gamma-old"]
    assert inherits(made) == {"acme-old": ["gamma-old"], "bold-old": []}
    assert inherits(confirmed(acme="beta-old", bold="beta-old")) == {"acme-old": [], "bold-old": []}
    assert inherits(confirmed(acme="absent")) == {"acme-old": [], "bold-old": []}


@pytest.mark.criterion("G-T1")
def test_g_t1_a_row_renamed_twice_passes_on_to_the_last_one() -> None:
    existing = fleet(hosted("u1", "one"), hosted("u2", "two"))
    made = plan(reading(hosted("y", "one"), hosted("u2", "two")), [OLD], existing, OPEN)
    existing = step(made, existing)
    rows = reading(hosted("z", "one"), hosted("u2", "two"))
    for _ in range(3):
        made = plan(rows, [OLD], existing, OPEN)
        assert inherits(made) == {"u1-old": ["y-old", "z-old"], "y-old": ["z-old"]}
        existing = step(made, existing)


@pytest.mark.criterion("G-T1")
@pytest.mark.parametrize("created", [LATE, EARLY], ids=["later", "in the same second"])
@pytest.mark.parametrize("renamed", [False, True])
@pytest.mark.parametrize("rows", [reading(hosted("y", "one")), named(former("y", "z", "two"))])
def test_g_t1_nothing_passes_to_a_customer_who_was_there_before(
    rows: Reading, renamed: bool, created: str
) -> None:
    """Two customers of one host, or a uid that is used again; a row that gets its uid of before is no other customer."""
    before = [replace(item, state=TenantState.FAILED) for item in fleet(hosted("y", "one"))]
    before = [replace(item, created=EARLY) for item in before]
    later = [replace(item, created=created) for item in fleet(hosted("z", "one"))]
    if renamed:
        before = [replace(item, inherited_by=frozenset({"z-old"})) for item in before]
    made = plan(rows, [OLD], [*before, *later], OPEN)
    assert waits(made) == {"z-old": ["y-old"]}
    assert inherits(made) == {"z-old": ["y-old"] if renamed else []}


@pytest.mark.criterion("G-T1")
@pytest.mark.parametrize("state", ["there", "of another template", "being deleted"])
def test_g_t1_a_host_passes_nothing_to_a_younger_customer_who_was_there_with_the_other(
    state: str,
) -> None:
    """Of two rows with one host the older goes: what a renamed row makes is made after its record, the other was there."""
    there = fleet(hosted("u1", "one")) + [
        replace(item, created=LATE, state=TenantState.FAILED) for item in fleet(hosted("y", "one"))
    ]
    if state == "of another template":
        there[1] = replace(there[1], name="y-other", template="other")
    if state == "being deleted":
        there[1] = replace(there[1], deleting=True)
    templates = [OLD, Template("other", "1", EARLY)] if state == "of another template" else [OLD]
    rows = reading(hosted("y", "one"))
    for _ in range(2):
        made = plan(rows, templates, there, OPEN)
        assert (waits(made), inherits(made)) == ({"u1-old": ["y-old"]}, {"u1-old": []})
        there = step(made, there)


@pytest.mark.criterion("G-T1")
def test_g_t1_a_younger_customer_inherits_by_the_word_of_a_row_or_of_a_person() -> None:
    young = [replace(item, created=LATE) for item in fleet(hosted("y", "one"))]
    young = [replace(item, state=TenantState.FAILED) for item in young]
    there = fleet(hosted("u1", "one")) + young
    assert inherits(plan(named(former("y", "u1", "one")), [OLD], there, OPEN)) == {
        "u1-old": ["y-old"]
    }
    there[0] = replace(there[0], inherited_by=frozenset({"y-old"}))
    assert inherits(plan(reading(hosted("y", "one")), [OLD], there, OPEN)) == {"u1-old": ["y-old"]}


@pytest.mark.criterion("G-T1")
def test_g_t1_a_record_of_one_template_counts_for_the_row() -> None:
    """The record on a tenant of another template could not be written, and the first heir was made."""
    both = [OLD, Template("other", "1", EARLY)]
    start = carried_out(plan(reading(hosted("u1", "one")), both, []), [])
    there = [replace(item, created=EARLY) for item in start]
    rows = reading(hosted("z", "one"))
    after = step(plan(rows, both, there, OPEN), there)
    none = frozenset[str]()
    after = [
        replace(item, replaced_by=none, inherited_by=none) if item.name == "u1-other" else item
        for item in after
    ]
    after = [item for item in after if item.name != "z-other"]
    assert inherits(plan(rows, both, after, OPEN))["u1-other"] == ["z-other"]


@pytest.mark.criterion("G-T1")
def test_g_t1_a_template_under_another_name_passes_on_what_is_of_one_uid() -> None:
    existing = fleet(row("u1"), row("u2"))
    made = plan(reading(row("u1"), row("u2")), [NEW], existing, OPEN)
    assert inherits(made) == {"u1-old": ["u1-new"], "u2-old": ["u2-new"]}


# -- templates -----------------------------------------------------------------------------------------


@given(
    st.sets(st.sampled_from(UIDS), min_size=1),
    st.lists(st.sampled_from(UIDS), max_size=4, unique=True),
    st.booleans(),
)
def test_h_a3_no_tenant_goes_before_that_of_the_renamed_template_is_ready(
    uids: set[str], ready: list[str], edited: bool
) -> None:
    existing = fleet(*(row(uid) for uid in uids))
    rows = reading(*(row(uid) for uid in uids))
    new = replace(NEW, version="2") if edited else NEW
    made = plan(rows, [new], existing, Guard())
    assert waits(made) == {f"{uid}-old": [f"{uid}-new"] for uid in uids}
    assert made.deletes == ()
    existing = step(made, existing, *(f"{uid}-new" for uid in ready))
    made = plan(rows, [new], existing, Guard())
    assert set(gone(made)) == {f"{uid}-old" for uid in uids & set(ready)}
    assert set(waits(made)) == {f"{uid}-old" for uid in uids - set(ready)}
    existing = step(made, existing, *(f"{uid}-new" for uid in uids))
    existing = step(plan(rows, [new], existing, Guard()), existing)
    assert {item.template for item in existing} == {"new"}


@given(st.sets(st.sampled_from(UIDS), min_size=1), st.sets(st.sampled_from(UIDS)))
def test_h_a3_a_table_that_lacks_rows_while_a_template_is_renamed_costs_no_tenant(
    uids: set[str], left: set[str]
) -> None:
    """The guard holds what would go because of its row, whatever the template is called."""
    assume(len(uids - left) > 1)
    existing = fleet(*(row(uid) for uid in uids))
    made = plan(reading(*(row(uid) for uid in left)), [NEW], existing, Guard())
    assert made.deletes == ()
    assert made.held is not None


def test_h_a3_a_template_that_goes_without_another_takes_its_tenants_along() -> None:
    existing = fleet(row("u1"), row("u2"))
    rows = reading(row("u1"), row("u2"))
    assert gone(plan(rows, [], existing, Guard(templates_approved=True))) == ["u1-old", "u2-old"]
    held = plan(rows, [], existing, OPEN)
    assert (gone(held), held.without_template) == ([], ("u1-old", "u2-old"))


@pytest.mark.criterion("G-T5")
def test_g_t5_a_younger_template_of_other_content_is_no_reason_for_tenants_to_go() -> None:
    both = [OLD, replace(NEW, version="2")]
    table = reading(row("u1"))
    existing = [replace(item, created=EARLY) for item in carried_out(plan(table, both, []), [])]
    made = plan(table, both[1:], existing, OPEN)
    assert (gone(made), made.without_template) == ([], ("u1-old",))
    renamed = [replace(item, version="1") for item in existing]
    assert gone(plan(table, [NEW], renamed, OPEN)) == ["u1-old"]


@pytest.mark.criterion("G-T5")
def test_g_t5_a_tenant_waits_on_though_the_template_that_it_waits_for_is_gone() -> None:
    new = replace(NEW, version="2")
    table = reading(row("u1"))
    existing = fleet(row("u1"))
    existing = step(plan(table, [new], existing, OPEN), existing)
    held = plan(table, [], existing, OPEN)
    assert (gone(held), held.without_template) == ([], ("u1-new", "u1-old"))
    assert waits(held) == {"u1-old": ["u1-new"]}
    assert held.unpaired == ()
    released = Guard(released=frozenset({"u1-old"}))
    assert gone(plan(table, [], existing, released)) == []
    approved = Guard(released=frozenset({"u1-old", "u1-new"}))
    assert gone(plan(table, [], existing, approved)) == ["u1-new", "u1-old"]
    assert waits(plan(table, [new], step(held, existing), OPEN)) == {"u1-old": ["u1-new"]}
    assert gone(plan(table, [new], step(held, existing, "u1-new"), OPEN)) == ["u1-old"]


def test_h_a3_a_template_that_was_there_before_is_another_one() -> None:
    other = Template("other", "9", EARLY)
    table = reading(row("u1"))
    existing = [
        replace(item, created=LATE, state=TenantState.FAILED)
        for item in carried_out(plan(table, [OLD, other], []), [])
    ]
    stays = plan(table, [other], existing).held
    assert stays is not None
    assert gone(plan(table, [other], existing, Guard(allow_delete=stays.digest))) == ["u1-old"]
    same = replace(other, version="1")
    held = plan(table, [same], [replace(item, version="1") for item in existing])
    assert waits(held) == {"u1-old": ["u1-other"]}


def test_h_a3_uid_and_template_may_change_at_once() -> None:
    existing = fleet(hosted("u1", "one"), hosted("u2", "two"))
    made = plan(reading(hosted("z", "one"), hosted("u2", "two")), [NEW], existing, OPEN)
    assert waits(made) == {"u1-old": ["z-new"], "u2-old": ["u2-new"]}


def test_h_a3_a_template_renamed_back_is_waited_for_again() -> None:
    existing = fleet(row("u1"))
    made = plan(reading(row("u1")), [NEW], existing)
    existing = step(made, existing)
    broken = [
        replace(item, state=TenantState.PENDING) if item.template == "old" else item
        for item in existing
    ]
    made = plan(reading(row("u1")), [OLD], broken)
    assert made.unpaired == ("u1-old",)
    assert waits(made) == {"u1-new": ["u1-old"]}
    existing = step(made, broken, "u1-old")
    assert gone(plan(reading(row("u1")), [OLD], existing)) == ["u1-new"]


def test_h_a3_templates_of_a_registry_of_the_same_table_count_and_moved_ones_stay() -> None:
    existing = fleet(row("u1"))
    table = reading(row("u1"))
    assert waits(plan(table, [], existing, None, Elsewhere(templates=[NEW]))) == {
        "u1-old": ["u1-new"]
    }
    moved = plan(table, [], existing, None, Elsewhere(moved=frozenset({"old"})))
    assert (moved.deletes, moved.replacements) == ((), ())


# -- who waits -----------------------------------------------------------------------------------------

names = st.sampled_from("abcdef")


@given(
    st.dictionaries(names, st.lists(names, max_size=4, unique=True)),
    st.dictionaries(names, st.sampled_from([None, *TenantState])),
    st.sets(names),
)
def test_h_a3_whoever_waits_is_held_by_something_that_stays(
    paired: dict[str, list[str]], states: dict[str, TenantState | None], staying: set[str]
) -> None:
    """No circle of tenants that go holds itself, and each that is held leads to one that is not ready."""
    paired = {name: [o for o in others if o != name] for name, others in paired.items()}
    staying -= paired.keys()
    found = waiting(paired, states, staying)
    for name in found:
        seen, todo, anchored = set(), [name], False
        while todo:
            each = todo.pop()
            for other in found.get(each, ()):
                assert states.get(other.name) is not TenantState.READY
                anchored |= other.name in staying
                if other.name not in seen:
                    seen.add(other.name)
                    todo.append(other.name)
        assert anchored
    for name, others in paired.items():
        direct = [o for o in others if o in staying and states.get(o) is not TenantState.READY]
        assert (name in found) or not direct
