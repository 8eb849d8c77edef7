"""What a plan destroys, read from its JSON."""

from __future__ import annotations

from typing import Any

import pytest

from internal.cloud.tasks.terraform.protection import (
    Destruction,
    UnreadablePlan,
    destructions_of,
    refusal,
)

pytestmark = pytest.mark.criterion("H-B3")


def plan(*actions: list[str]) -> dict[str, Any]:
    changes = [{"address": f"a.{n}", "change": {"actions": each}} for n, each in enumerate(actions)]
    return {"format_version": "1.2", "resource_changes": changes}


@pytest.mark.parametrize(
    ("actions", "replaced"),
    [
        (["no-op"], None),
        (["create"], None),
        (["read"], None),
        (["update"], None),
        (["forget"], None),
        (["create", "forget"], None),
        (["delete"], False),
        (["delete", "create"], True),
        (["create", "delete"], True),
    ],
)
def test_h_b3_every_action_that_deletes_counts(actions: list[str], replaced: bool | None) -> None:
    expected = [] if replaced is None else [Destruction("a.0", replaced)]
    assert destructions_of(plan(actions)) == expected


def test_h_b3_a_plan_without_changes_destroys_nothing() -> None:
    assert destructions_of({"format_version": "1.2"}) == []


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"resource_changes": []},
        {"format_version": "1.2", "resource_changes": {}},
        {"format_version": "1.2", "resource_changes": [{"address": "a"}]},
        {"format_version": "1.2", "resource_changes": [{"address": "a", "change": None}]},
    ],
)
def test_h_b3_what_is_not_a_plan_is_no_harmless_plan(odd: dict[str, Any]) -> None:
    with pytest.raises(UnreadablePlan):
        destructions_of(odd)


def test_h_b3_a_long_list_is_cut_at_an_address_and_keeps_the_remedy() -> None:
    found = [Destruction(f"module.instance.thing.main[{n}]", False) for n in range(100)]
    said = refusal(found, 100, "acme")
    assert "100 resources: destroy module.instance.thing.main[0], " in said
    assert "main[19] and 80 more. Nothing was applied." in said
    assert said.endswith(
        "`manager instance retry acme`, approve its plan, and set it back to true afterwards"
    )
