"""What `make bench-rollout` measures, on a small scale; it fails by itself if a bound does not hold."""

from __future__ import annotations

import asyncio
import sys

import orjson
import pytest

from tests.docs.blocks import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.criterion("RO-5")]


@pytest.mark.timeout(1200)
async def test_a_rollout_stays_within_its_budget_and_a_bad_one_is_rolled_back() -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.rollout", "--rows", "24"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    found = orjson.loads(output.splitlines()[-1])
    assert (found["rows"], found["kills"]) == (24, 2)
    assert 1 <= found["max_updating"] <= 10
    assert (found["lost"], found["doubled"], found["not_restored"]) == (0, 0, 0)
    assert 3 <= found["changed"] <= 13
    assert found["changed_resources"] >= found["changed"]
    assert 0 < found["writes"] <= 2.2
