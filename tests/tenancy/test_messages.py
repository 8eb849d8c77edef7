"""Messages of conditions: whole words, whole remedies, within their length."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apis.tenancy import TenantRegistryStatus, TenantStatus
from ctrlruntime.api.conditions import (
    LONGEST_MESSAGE,
    find_condition,
    list_sentences,
    shorten,
    shorten_before_remedy,
)
from internal.tenancy.registry.status import Synced, registry_status
from internal.tenancy.rows.row import Row, read
from internal.tenancy.shared.missing_permissions import Grant, tell
from internal.tenancy.shared.outcome import Outcome, State, summarize
from internal.tenancy.shared.tally import Counts
from internal.tenancy.sync.plan import plan
from internal.tenancy.sync.plan_inputs import Template
from tests.tenancy.test_plan import row, spec

NOW = datetime(2026, 1, 2, tzinfo=UTC)
WORDS = st.lists(st.text("abcdef", min_size=1, max_size=12), max_size=60).map(" ".join)


@pytest.mark.criterion("H-A10")
@pytest.mark.parametrize(
    ("text", "limit", "expected"),
    [
        ("short", 5, "short"),
        ("one two three", 10, "one two…"),
        ("one two three", 8, "one two…"),
        ("one two, three", 11, "one two…"),
        ("onelongwordonly", 8, "onelong…"),
    ],
)
def test_h_a10_a_text_is_cut_after_a_word(text: str, limit: int, expected: str) -> None:
    assert shorten(text, limit) == expected


@pytest.mark.criterion("H-A10")
@given(WORDS, st.integers(8, 80))
def test_h_a10_what_is_left_of_a_text_are_its_first_words(text: str, limit: int) -> None:
    cut = shorten(text, limit)
    assert len(cut) <= limit
    if cut != text and " " in cut:
        assert (text + " ").startswith(cut.removesuffix("…").rpartition(" ")[0] + " ")


@pytest.mark.criterion("H-A10")
@given(WORDS, st.text("abc ", min_size=1, max_size=30), st.integers(60, 100))
def test_h_a10_the_remedy_of_a_text_is_never_cut(text: str, remedy: str, limit: int) -> None:
    cut = shorten_before_remedy(f"{text}; {remedy}", limit)
    assert len(cut) <= limit
    assert cut.endswith(f"; {remedy}")


@pytest.mark.criterion("H-A10")
@given(st.lists(WORDS.filter(bool), max_size=30), st.integers(60, 400))
def test_h_a10_a_list_has_whole_sentences_and_counts_the_others(
    sentences: list[str], limit: int
) -> None:
    text = list_sentences("Head", sentences, limit)
    assert len(text) <= limit
    if not sentences:
        assert text == ""
    elif "more." in text and text.endswith("more."):
        shown = len(sentences) - int(text.removesuffix(" more.").rpartition(" ")[2])
        assert shown >= 1
        if shown > 1:
            assert text.startswith("Head: " + "; ".join(sentences[:shown]))


@pytest.mark.criterion("H-A10")
def test_h_a10_a_resources_remedy_is_in_the_conditions_of_its_tenant() -> None:
    remedy = "set conflictPolicy: Force or remove the field from the template"
    cause = " ".join(f"field-{number}" for number in range(40))
    outcomes = [
        Outcome(f"{number}{'r' * 240}", State.FAILED, "", f"{cause}; {remedy}")
        for number in range(9)
    ]
    found = summarize(TenantStatus(), outcomes, 1, NOW)
    for kind in ("Ready", "Degraded"):
        condition = find_condition(found.conditions, kind)
        assert condition is not None
        assert len(condition.message) <= LONGEST_MESSAGE
        assert condition.message.count("field-0 ") == condition.message.count(remedy) > 0
        assert condition.message.rstrip(".").endswith(" more")


@pytest.mark.criterion("H-A10")
def test_h_a10_every_problem_of_rows_keeps_its_remedy() -> None:
    rows: list[Row] = [row(None)]
    for number in range(30):
        uid = f"customer-number-{number}-with-a-rather-long-name-of-its-own"
        rows += [row(uid), row(uid), row(f"U{uid}"), row(f"on-{uid}", f"perhaps {'x' * 90}")]
    found = read(rows, spec())
    made = plan(found, [Template("web", "1")], [])
    status = registry_status(
        TenantRegistryStatus(),
        Synced(reading=found, plan=made),
        Counts(),
        generation=1,
        handled="",
        now=NOW,
    )
    condition = find_condition(status.conditions, "RowsValid")
    assert condition is not None
    assert len(condition.message) <= LONGEST_MESSAGE
    for sentence in found.problems(1):
        assert sentence.rpartition(": ")[2] in condition.message


@pytest.mark.criterion("H-A10")
def test_h_a10_commands_that_grant_rights_are_whole() -> None:
    conditions = TenantStatus().conditions
    grants = [Grant("widgets.example.com", f"plural{number}", verb="patch") for number in range(20)]
    tell(conditions, grants, 1, NOW)
    message = conditions[0].message
    assert len(message) <= LONGEST_MESSAGE
    lines = message.split("\n")
    assert lines[-1] == f"and {20 - len(lines) + 1} more"
    assert set(lines[:-1]) <= {grant.advice for grant in grants}
