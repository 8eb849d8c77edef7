"""`help(ctrlruntime)` is one page, and describes what is looked for first."""

from __future__ import annotations

import pydoc
import re

import pytest

import ctrlruntime

PAGE = 80
"""Lines, and characters of a line before the margin of 4."""


@pytest.mark.criterion("D-19")
def test_help_is_one_page_of_names_that_exist() -> None:
    text = pydoc.plain(pydoc.render_doc(ctrlruntime))
    assert len(text.splitlines()) <= PAGE
    assert max(map(len, str(ctrlruntime.__doc__).splitlines())) <= 100
    names = re.findall(r"\b[A-Z]\w*[a-z]\w*\b|\b[a-z]+_[a-z_]+\b", _table(str(ctrlruntime.__doc__)))
    assert len(names) > 30
    known = {*ctrlruntime.__all__, "Environment"}
    assert set(names) - known == set()


def test_completion_offers_every_name() -> None:
    assert set(ctrlruntime.__all__) <= set(dir(ctrlruntime))


@pytest.mark.criterion("D-19")
@pytest.mark.parametrize(
    ("thing", "phrases"),
    [
        (ctrlruntime.reconcile_context, ["reasons", "attempt", "deadline", "LookupError"]),
        (ctrlruntime.Controller.watch, ["while it runs", "unwatch", "RuntimeError"]),
        (ctrlruntime.Controller.unwatch, ["watch", "released"]),
    ],
)
def test_what_a_reconcile_may_call_is_described(thing: object, phrases: list[str]) -> None:
    text = pydoc.plain(pydoc.render_doc(thing))
    assert [phrase for phrase in phrases if phrase not in text] == []


def _table(text: str) -> str:
    return text.partition("kinds   ")[2].partition("help(")[0]
