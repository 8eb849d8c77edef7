"""A wave whose members cannot be changed just now is waited for: the next one does not begin without its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from ctrlruntime.rollout import Member, Reason, Strategy, Wave, decide
from tests.rollout.fleet_simulation import START, fleet

SICK = "it is not healthy"
FIRST = Wave(name="first", percent=0, shares={"internal": 100})
LABELLED = Wave(name="first", labels={"stage": "canary"})


def members(**changes: object) -> dict[str, Member]:
    """Three ready members, of which m0 is in the first wave, and has these changes."""
    found = fleet(3)
    first = replace(found["m0"], group="internal", labels={"stage": "canary"})
    return {**found, "m0": replace(first, **changes)}  # type: ignore[arg-type]


def changed(found: Mapping[str, Member], wave: Wave) -> list[str]:
    decision = decide("v2", list(found.values()), Strategy(waves=(wave, Wave(name="all"))), START)
    return sorted(item.name for item in decision.changes)


@pytest.mark.criterion("SIM-F4")
@pytest.mark.parametrize("wave", [FIRST, LABELLED])
def test_a_wave_of_which_no_member_can_change_holds_those_after_it(wave: Wave) -> None:
    found = members(unfit=SICK)
    strategy = Strategy(waves=(wave, Wave(name="all")))
    decision = decide("v2", list(found.values()), strategy, START)
    assert not decision.changes
    assert decision.wave == "first"
    assert decision.waiting["m1"].reason is Reason.WAVE
    assert decision.waiting["m1"].message == f"wave 'first' begins with m0: {SICK}"
    assert decision.waiting["m0"].message == SICK
    assert changed(members(), wave) == ["m0"]


@pytest.mark.criterion("SIM-F4")
@pytest.mark.parametrize("changes", [{"paused": True}, {"group": "other"}])
def test_a_wave_without_any_member_that_is_wanted_is_passed(changes: dict[str, object]) -> None:
    assert len(changed(members(unfit=SICK, **changes), FIRST)) >= 2


@pytest.mark.criterion("SIM-F4")
def test_a_wave_with_some_members_that_can_change_begins_with_those() -> None:
    found = members(unfit=SICK)
    found["m1"] = replace(found["m1"], group="internal")
    assert changed(found, FIRST) == ["m1"]
