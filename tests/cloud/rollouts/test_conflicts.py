"""An assignment that meets a conflict is decided on again, also where no event of the instance follows."""

from __future__ import annotations

from pathlib import Path

import pytest

from ctrlruntime.envtest.proxy import Fail, Match
from tests.cloud.rollouts.harness import NEW, Fleet


@pytest.mark.criterion("SIM-F5")
async def test_a_rollout_goes_on_after_a_conflict(tmp_path: Path) -> None:
    async with Fleet.start(tmp_path) as fleet:
        await fleet.create_instances(1)
        match = Match(user="manager", verb="patch", resource="instances.*/status")
        fleet.environment.proxy.add(Fail(code=409), match, times=3)
        await fleet.roll_out()
        status = await fleet.reaches("Complete")
        assert (status.updated, status.target_version) == (1, NEW)
