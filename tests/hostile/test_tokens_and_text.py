"""Unknown tokens lead to a bounded number of reviews (S-F17); terminals get no control characters (S-F19)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from ctrlruntime.api.conditions import new_condition
from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.client.client import Client
from ctrlruntime.manager.authorization import (
    TOKEN_SECONDS,
    UNKNOWN_TOKENS_AT_ONCE,
    AccessReviews,
    TooManyUnknownTokens,
)
from ctrlruntime.resources.change_plan import Affected, ChangePlan, Group, Member, Verb, Wording
from ctrlruntime.resources.field_changes import FieldChange
from manager.commands.plan_output import markdown, text
from manager.commands.tables import Column, print_fields, print_rows

HOSTILE = "a\x1b]0;title\x07\x1b[2J\x9b31m\r\u202e\u2066b\u200fc\x7f\0d\ttab\nline ä…"
HARMLESS = "a]0;title[2J31mbcd\ttab\nline ä…"


class _Reviewer:
    """A client whose server accepts the token `good` alone, and counts."""

    def __init__(self) -> None:
        self.reviews = 0

    async def create(self, review: dict[str, Any], **_: object) -> dict[str, Any]:
        self.reviews += 1
        good = review["spec"]["token"] == "good"
        return {"status": {"authenticated": good, "user": {"username": "alice"}}}


@pytest.mark.criterion("S-F17")
async def test_unknown_tokens_are_reviewed_at_a_limited_rate_and_known_ones_always_pass() -> None:
    now = [0.0]
    reviewer = _Reviewer()
    reviews = AccessReviews(lambda: cast("Client", reviewer), lambda: now[0])
    assert (await reviews.caller("good")) is not None
    refused = 0
    for number in range(500):
        try:
            assert await reviews.caller(f"random-{number}") is None
        except TooManyUnknownTokens:
            refused += 1
    assert reviewer.reviews == UNKNOWN_TOKENS_AT_ONCE
    assert refused == 501 - UNKNOWN_TOKENS_AT_ONCE
    now[0] += TOKEN_SECONDS + 1
    for number in range(UNKNOWN_TOKENS_AT_ONCE):
        await reviews.caller(f"later-{number}")
    with pytest.raises(TooManyUnknownTokens):
        await reviews.caller("one-too-many")
    assert (await reviews.caller("good")) is not None, "a token that was valid is reviewed"


@pytest.mark.criterion("S-F19")
def test_conditions_and_tables_have_no_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert new_condition("Ready", False, "Failed", HOSTILE).message == HARMLESS
    print_rows([{"a": HOSTILE}], [Column("A", "a")], "table")
    print_fields({"version": HOSTILE, "domains": [HOSTILE]})
    shown = capsys.readouterr().out
    assert not set("\x1b\x07\x9b\r\u202e\u2066\u200f\x7f\0") & set(shown)


@pytest.mark.criterion("S-F19")
@pytest.mark.parametrize("shown", [text, markdown])
def test_plans_have_no_control_characters_wherever_a_value_is_shown(
    shown: Callable[[ChangePlan], str],
) -> None:
    member = Member("t", "a", "c")
    for values in (("x", HOSTILE), (HOSTILE, None), (f"{HOSTILE}\nb", "c\nd")):
        group = Group(
            verb=Verb.UPDATE,
            kind=GroupKind("", "ConfigMap"),
            template="web",
            resource="a",
            reason=HOSTILE,
            changes=(FieldChange("data.a", *values),),
            members=[member],
            refusal=HOSTILE,
        )
        affected = Affected(template="web", resource="a", message=HOSTILE, units=[HOSTILE])
        wording = Wording(
            subject="Template", unit="row", owner="tenant", key="uid", failing="Fails"
        )
        found = ChangePlan(
            wording=wording,
            name="web",
            namespace="a",
            groups=[group],
            held=[affected],
            failures=[affected],
            notes=[HOSTILE],
        )
        assert not set("\x1b\x07\x9b\r\u202e\u2066\u200f\x7f\0") & set(shown(found))
