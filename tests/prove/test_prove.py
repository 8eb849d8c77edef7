"""Every state of small worlds is visited, by breadth and by depth; a planted defect is found in each world."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pytest

from ctrlruntime.cache.write_overlay import WriteOverlay
from ctrlruntime.gate.budget import Budget
from ctrlruntime.manager.election import LeaderElector
from ctrlruntime.queue.core import QueueCore
from ctrlruntime.rollout.decision import _Pass
from ctrlruntime.sharding import handover
from ctrlruntime.sharding.handover import HandOver
from internal.cloud.taskdriver.decision import rest
from internal.tenancy.sync import departures
from tests.prove.explorer import Step, explore
from tests.prove.worlds import WORLDS

_ENSURE = import_module(
    "internal.cloud.taskdriver.ensure"
)  # the package has a function of that name
pytestmark = pytest.mark.criterion("SIM-D7")


@pytest.mark.parametrize("name", sorted(WORLDS))
def test_every_state_of_a_small_world_is_right_and_ends_in_calm(name: str) -> None:
    breadth, depth = (explore(WORLDS[name](small=True), depth_first=each) for each in (False, True))
    assert (breadth.broken, breadth.path) == ("", [])
    assert (breadth.states, breadth.steps, breadth.calm) == (depth.states, depth.steps, depth.calm)


def _is_free(*_: object) -> bool:
    return False


def _acknowledged(announced: object, *_: object) -> bool:
    return announced is not None


@pytest.mark.parametrize(
    ("name", "place", "attribute", "defect", "rule"),
    [
        ("gate", Budget, "allowed", lambda _self, members: members, "members lost objects"),
        ("removal guard", departures, "guarded", lambda *_: (None, frozenset()), "an answer is empty"),
        ("rollout", _Pass, "_slots", lambda *_: (None, None), "change at once"),
        ("task driver", _ENSURE, "clean_up", lambda s, _runs: rest(s, None), "never calm"),
        ("queue", QueueCore, "done", lambda self, request: self._processing.clear(), "counts"),
        ("election", LeaderElector, "_is_valid", _is_free, "lead"),
        ("shards", HandOver, "_former", lambda *_: frozenset(), "write for one slot"),
        ("shards", handover, "has_acknowledged", _acknowledged, "write for one slot"),
        ("write overlay", WriteOverlay, "wrote", lambda *_: [], "older than revision"),
    ],
)  # fmt: skip
def test_a_planted_defect_is_found(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    place: object,
    attribute: str,
    defect: Callable[..., object],
    rule: str,
) -> None:
    monkeypatch.setattr(place, attribute, defect)
    found = explore(WORLDS[name](small=True))
    assert rule in found.broken
    assert found.path[0] == "start"


class Circle:
    """A program that goes on for ever, from state 2 to 4 and back, or stops short at 5."""

    name = "circle"

    def __init__(self, calm: int) -> None:
        self._calm = calm

    def starts(self) -> list[int]:
        return [1]

    def key(self, state: int) -> int:
        return state

    def steps(self, state: int) -> list[Step[int]]:
        after = {1: 2, 2: 3, 3: 4, 4: 2}
        return [Step("on", after[state], drives=True)] if state in after else []

    def is_calm(self, state: int) -> bool:
        return state == self._calm


@pytest.mark.parametrize(("calm", "broken"), [(3, False), (9, True), (1, True)])
def test_a_loop_without_progress_is_found(calm: int, broken: bool) -> None:
    assert bool(explore(Circle(calm)).broken) is broken
