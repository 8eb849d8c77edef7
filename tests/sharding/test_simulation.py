"""A share of `make sim-shards`, and defects that it has to find."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ctrlruntime.sharding import assignment, handover, shards
from ctrlruntime.sharding.assignment import SlotRecord
from tests.sharding.simulation import KEYS_OF, Broken, Simulation, count_keys


@pytest.mark.criterion("SH-3", "SH-4", "SH-6", "SH-7")
@pytest.mark.parametrize("seed", range(3))
def test_members_that_fail_at_every_step_leave_each_slot_with_one_owner(seed: int) -> None:
    count_keys(10_000)
    world = Simulation(seed, danger=0.01)
    world.run(80)
    assert min(KEYS_OF) > 0
    assert world.crashes.total() > 5


def _run_many() -> None:
    for seed in range(20):
        Simulation(seed, danger=0.01).run(300)


@pytest.mark.parametrize(
    ("place", "attribute", "defect"),
    [
        (handover, "has_acknowledged", lambda announced, *_: announced is not None),
        (handover.HandOver, "_waits", lambda _self, slots, _members: dict.fromkeys(slots, frozenset())),
        (assignment, "_followed", lambda _slot, _before, owner, epoch, _: SlotRecord(owner, epoch)),
        (shards.Shards, "_in_term", lambda _self: True),
    ],
    ids=["any epoch", "waits for none", "forgets", "no fence"],
)  # fmt: skip
def test_a_planted_defect_is_found(
    monkeypatch: pytest.MonkeyPatch, place: object, attribute: str, defect: Callable[..., object]
) -> None:
    monkeypatch.setattr(place, attribute, defect)
    with pytest.raises(Broken, match="two writers"):
        _run_many()
