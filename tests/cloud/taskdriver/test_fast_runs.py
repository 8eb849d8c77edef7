"""Runs that end before their start returns."""

from __future__ import annotations

import pytest

from apis.cloud import Phase
from tests.cloud.taskdriver.harness import TaskDriverHarness


@pytest.mark.criterion("SG-23")
async def test_a_run_that_is_over_at_once_is_recorded_at_once(harness: TaskDriverHarness) -> None:
    """Its provider reports changes of runs, and an end before the start returned is none."""
    harness.outside.immediate = True
    await harness.make()
    async with harness.life(told=True) as life:
        await life.drive()
    assert (await harness.read()).status.phase is Phase.READY
