"""What the systems came to together."""

from __future__ import annotations

import pytest

from ctrlruntime.envtest.simulation.faults import KINDS
from tests.simulation.systems import SHARES, SYSTEMS
from tests.simulation.systems.__main__ import share_of, table, total


@pytest.mark.criterion("SIM-42")
def test_a_kind_of_fault_that_never_fired_shows_in_the_total() -> None:
    report = {"seeds": 5, "seconds": 1.5, "faults": {"crash": 3, "rows lag": 1}, "red": []}
    both = total([report, {**report, "faults": {"crash": 4}}])
    assert both["faults"] == {**dict.fromkeys(KINDS, 0), "crash": 7, "rows lag": 1}
    assert (both["seeds"], both["rarest fault"], both["red"]) == (10, 0, 0)
    assert table(both).splitlines()[-1].split() == ["crash", "7", "700"]


def test_every_system_gets_a_share_of_the_seeds() -> None:
    shares = [share_of(name, 1000) for name in SHARES]
    assert {*SHARES} == {*SYSTEMS}
    assert 1000 <= sum(shares) <= 1000 + len(shares)
    assert min(shares) > 50
