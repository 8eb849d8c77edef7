"""What `make bench-shards` measures, on a small scale; it fails by itself if a bound does not hold."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace

import orjson
import pytest

from benchmarks.shards.counting import ShardFigures
from tests.docs.blocks import ROOT

GOOD = ShardFigures(members=4, rows=100, writes=700, writes_of_one=700, largest_share=0.3)


@pytest.mark.criterion("SH-25")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("overlap_writes", 1),
        ("largest_share", 0.31),
        ("writes", 736),
        ("steady_requests", 1),
        ("restart_writes", 1),
        ("unowned_seconds", 17.5),
        ("repeated_passes_elsewhere", 1),
        ("lost", 1),
    ],
)
def test_each_figure_beyond_its_bound_is_named(name: str, value: float) -> None:
    assert GOOD.violations() == []
    figures = replace(GOOD)
    setattr(figures, name, value)
    (named,) = figures.violations()
    assert named.startswith(name)


@pytest.mark.slow
@pytest.mark.criterion("SH-25")
@pytest.mark.timeout(1200)
async def test_two_managers_share_a_fleet_within_the_bounds_but_for_chance() -> None:
    """Minutes: a Lease runs out. Sixty rows are no fair sample: the share is looked at by its kind alone."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "benchmarks.shards", "--members", "2", "--rows", "60"),
        *("--steady", "5"),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await process.communicate()
    found = ShardFigures(**orjson.loads(output.splitlines()[-1]))
    assert [each for each in found.violations() if "share" not in each] == []
    assert 0.5 <= found.largest_share < 1
