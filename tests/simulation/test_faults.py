"""Every kind of fault meets what it is for."""

from __future__ import annotations

import pytest

from ctrlruntime.envtest.simulation import Case, explore
from ctrlruntime.envtest.simulation.faults import KINDS
from tests.simulation.stories import story


@pytest.mark.criterion("SIM-D6")
def test_every_kind_of_fault_fires_within_40_seeds() -> None:
    report = explore(story, map(Case, range(40)), workers=2)
    assert not report.red
    fired = {fault.partition(":")[0] for fault in report.fired}
    assert fired == {*KINDS}
