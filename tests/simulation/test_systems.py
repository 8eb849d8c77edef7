"""Some new seeds of each system's story at each run, and all that ever broke a rule."""

from __future__ import annotations

import importlib
import time
import tomllib
from pathlib import Path

import pytest

from ctrlruntime.envtest.simulation import Case, explore
from ctrlruntime.envtest.simulation.campaign import description
from tests.simulation.systems import SYSTEMS

RED = tomllib.loads((Path(__file__).parent / "systems/red.toml").read_text())
NEW = 4
"""Seeds of each system: a second or two each."""


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_story_keeps_every_rule(system: str) -> None:
    """Seconds: whole runs of a system. The seeds are new ones each time; a red one is printed, and kept."""
    module, _, name = SYSTEMS[system].partition(":")
    story = getattr(importlib.import_module(module), name)
    first = int(time.time())
    cases = [*map(Case.parse, RED.get(system, ())), *map(Case, range(first, first + NEW))]
    report = explore(story, cases)
    again = f"\n\nreplay it: make simulate SYSTEM={system} SEED="
    assert not report.red, again.join([description(report.red[0]), str(report.red[0].case)])


def test_what_is_kept_is_of_a_system() -> None:
    assert {*RED} <= {*SYSTEMS}
