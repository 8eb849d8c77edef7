"""The table of lives is the page's, and a test shows each cell of it."""

from __future__ import annotations

import re

import pytest

from tests.docs.blocks import runnable
from tests.rules.harness import crds
from tests.rules.lives import KINDS, NONE, PAGE, ROOT, SUBRESOURCE, cells, page_with_table

pytestmark = pytest.mark.criterion("L-6")

UNSHOWN = {
    ("ScheduledVolumeSnapshot", "cannot be read"),
    ("ScheduledVolumeSnapshot", "has objects on a hub that is silent"),
    ("ChangeFreeze", "cannot be read"),
}
"""Cells that no test shows. The set only shrinks."""


def test_the_page_has_the_table() -> None:
    assert PAGE.read_text() == page_with_table(), "python -m tests.rules.lives --write"


def test_every_kind_has_its_row() -> None:
    alike = {kind for kind in crds() if kind not in KINDS}
    assert {SUBRESOURCE, *crds()} - alike == set(KINDS)
    assert all(kind.startswith("Instance") or kind == "UpgradeInstanceTask" for kind in alike)


def test_every_cell_has_a_test() -> None:
    sources = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    there = set(re.findall(r"def (test_\w+)\(", sources))
    shown = [each for each in cells() if each.answer != NONE]
    assert [each for each in shown if each.test and each.test not in there] == []
    assert {(each.kind, each.question) for each in shown if not each.test} == UNSHOWN


@pytest.mark.criterion("L-9")
def test_adding_a_kind_takes_at_most_80_lines() -> None:
    """Outside its builder; the page's programs are run with all other documents."""
    kind, use = (each.text for each in runnable("docs/adding-a-kind.md"))
    builder = kind[kind.index("def build(") : kind.index("class Mailboxes")]
    assert len(kind.splitlines()) - len(builder.splitlines()) <= 80
    for each in ("finalizer=", "tear_down=", "remote=", "set_ready(", "ParentState("):
        assert each in kind
    assert "ctrlruntime.dev/paused" in use
