"""Runs that end before their start returns."""

from __future__ import annotations

import pytest

from apis.cloud import Phase
from tests.cloud.taskdriver.harness import World


@pytest.mark.criterion("SG-23")
async def test_a_run_that_is_over_at_once_is_recorded_at_once(world: World) -> None:
    """Its provider reports changes of runs, and an end before the start returned is none."""
    world.outside.immediate = True
    await world.make()
    async with world.life(told=True) as life:
        await life.drive()
    assert (await world.read()).status.phase is Phase.READY
