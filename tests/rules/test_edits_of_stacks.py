"""Rule 3 of the design, for what `manager operator` writes on the hub; see test_edits_by_hand.py."""

from __future__ import annotations

import pytest

from tests.rules.edits import carry_out_all
from tests.rules.fleet_scene import FleetScene


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.criterion("H-R3")
async def test_edits_of_what_the_operator_wrote_are_repaired_or_reported_and_delete_nothing(
    request: pytest.FixtureRequest,
) -> None:
    full = request.config.getoption("--rule-examples") >= 100
    async with FleetScene.start() as scene:
        answers = await carry_out_all(scene, full=full)
        assert {each.edit.kind.kind for each in answers} >= {"Deployment", "Service"}
