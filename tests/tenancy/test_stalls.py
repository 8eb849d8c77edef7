"""The manager's loop never stands still for long; `benchmarks.stalls` measures it for thousands."""

from __future__ import annotations

import pytest

from benchmarks.stalls import ALLOWED, bench


@pytest.mark.slow
@pytest.mark.criterion("loop-stalls")
async def test_the_loop_does_not_stand_still_while_tenants_converge() -> None:
    figures = await bench(150, profile=False)
    assert figures.longest_ms <= ALLOWED * 1000
