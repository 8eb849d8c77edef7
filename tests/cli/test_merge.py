"""The merge by lines: what no line may be lost by."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlruntime.cli.merge import MARKS, has_marks, merge

TEXTS = st.lists(st.sampled_from("abcdefg"), max_size=12).map(
    lambda lines: "".join(f"{line}\n" for line in lines)
)


@given(base=TEXTS, other=TEXTS)
def test_what_one_side_changed_alone_is_taken_over(base: str, other: str) -> None:
    assert merge(base, other, base).text == other
    assert merge(base, base, other).text == other
    assert merge(base, other, other).text == other


@given(base=TEXTS, yours=TEXTS, theirs=TEXTS, tail=st.sampled_from(["", "no end of line"]))
def test_no_line_of_yours_is_lost(base: str, yours: str, theirs: str, tail: str) -> None:
    yours += tail
    result = merge(base, yours, theirs)
    lines, old = result.text.split("\n"), base.split("\n")
    for line in set(yours.split("\n")):
        assert lines.count(line) >= yours.split("\n").count(line) - old.count(line), line
    assert has_marks(result.text) is bool(result.conflicts)


@pytest.mark.parametrize(
    ("yours", "theirs", "merged"),
    [
        ("a\nmine\nb\nc\nd\n", "a\nb\nc\nd\ntheirs\n", "a\nmine\nb\nc\nd\ntheirs\n"),
        ("c\nd\n", "a\nb\nc\nD\n", "c\nD\n"),
        (
            "a\nb\nmine\nd\n",
            "a\nb\ntheirs\nd\n",
            f"a\nb\n{MARKS[0]}mine\n{MARKS[1]}theirs\n{MARKS[2]}d\n",
        ),
        ("a\nb\nc\nmine", "a\nb\nc\n", f"a\nb\nc\n{MARKS[0]}mine\n{MARKS[1]}{MARKS[2]}"),
    ],
    ids=["both", "removed", "conflict", "deleted beside an edit"],
)
def test_places_that_both_changed_have_both(yours: str, theirs: str, merged: str) -> None:
    assert merge("a\nb\nc\nd\n", yours, theirs).text == merged
