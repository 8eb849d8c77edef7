"""Runs whose manager was killed after it had prepared them, and before they began."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from internal.cloud.runs.local import LocalOptions, LocalRuns
from internal.cloud.taskdriver.deps import shared
from internal.cloud.taskdriver.record import owner_of
from tests.cloud.runs.benches import request_of
from tests.cloud.taskdriver.harness import TaskDriverHarness, run_of


@pytest.mark.criterion("SG-23")
async def test_a_folder_that_a_killed_manager_left_is_started(
    harness: TaskDriverHarness, tmp_path: Path
) -> None:
    """Its run is on record, and no process of it will ever end: nothing would wake the driver."""
    owner = owner_of(await harness.make())
    harness.refused = "killed before it started the run"
    async with harness.life() as life:
        with pytest.raises(RuntimeError, match="killed"):
            await life.drive()
    harness.refused = ""
    run_id = run_of((await harness.read()).status).run_id

    options = LocalOptions(folder=tmp_path / "runs", command=(sys.executable, "-c", ""), grace=5)
    provider = LocalRuns(options)
    folder = provider._folder(owner, run_id)
    request = request_of(owner, run_id=run_id)
    folder.make(provider._plan(request, folder), await provider._files(request))
    assert not folder.has_started()
    try:
        async with harness.life(open_runs=shared(provider), told=True) as life:
            await life.drive()
        assert folder.has_started()
    finally:
        await provider.delete(owner, run_id)
        await provider.aclose()
