"""Every shape through the doors that have no test of their own; `make hostile` measures stalls and restarts as well."""

from __future__ import annotations

import pytest

from ctrlruntime.webhook import application
from tests.docs import reference
from tests.docs.blocks import ROOT
from tests.hostile.__main__ import LARGEST_PEAK, summary
from tests.hostile.doors import DOORS
from tests.hostile.measure import Door, Outcome, measured
from tests.hostile.peers import SLOW
from tests.hostile.plane_answers import LIST, PLANE, WATCH

pytestmark = pytest.mark.criterion("S-H1")

ATTACKS = [
    (door, shape)
    for door in DOORS
    if door not in (PLANE, WATCH, LIST)  # tests/hostile/test_plane_answers.py
    for shape in door.shapes
    if shape not in SLOW
]


@pytest.mark.parametrize(("door", "shape"), ATTACKS, ids=[f"{d.name}-{s}" for d, s in ATTACKS])
async def test_a_hostile_input_costs_itself_alone(
    door: Door, shape: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine takes longer for the largest than an API server waits; their processor time is measured."""
    monkeypatch.setattr(application, "LONGEST", 600.0)
    found = await measured(door, shape)
    assert (found.error, found.neighbour) == ("", "")
    assert found.peak_mib < LARGEST_PEAK


def test_the_summary_counts_what_was_not_withstood() -> None:
    well = Outcome("a", "x", 1.0, 2.0, "", "")
    found = summary([well, Outcome("b", "y", 60.0, 3.0, "KeyError: 1", "TimeoutError: ")], 1)
    assert (found["doors"], found["shapes"], found["restarts_needed"]) == (2, 2, 1)
    assert (found["longest_stall_ms"], found["peak_mib"]) == (60.0, 3.0)
    assert (found["neighbours_harmed"], found["failed"]) == (1, ["b: y: KeyError: 1"])
    assert found["slow"] == ["b: y: 60 ms"]


def test_the_page_lists_every_door() -> None:
    page = (ROOT / "docs" / "packages" / "intake.md").read_text()
    assert "<!-- table tests.hostile.doors -->" in page
    assert reference.filled(page) == page, "run `make generate`"
