"""The operator while data planes come and go, in virtual time; `make sim-scale PLANES=1000` has many of them."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.fleet.simulation.world import some, world

pytestmark = [pytest.mark.slow, pytest.mark.looptime]
ROUNDS = 4
SHARE = 0.2
"""Of the data planes, that something happens to in each round."""
CALM = 660.0
"""Seconds of virtual time without a change: every watch is opened anew meanwhile."""


@pytest.fixture
def count(request: pytest.FixtureRequest) -> int:
    """How many data planes there are."""
    return int(request.config.getoption("--planes"))


async def test_every_entry_follows_its_own_data_plane_and_nothing_is_requested_while_all_is_calm(
    count: int,
) -> None:
    started = time.process_time()
    async with world(count, seed=13) as made:
        await made.mend()
        took = [await made.wait_settled()]
        for _ in range(ROUNDS):
            for plane in some(made.draw, made.planes, SHARE):
                await made.change(plane)
            took.append(await made.wait_settled())
        await made.mend()
        took.append(await made.wait_settled())
        before = made.requests()
        await asyncio.sleep(CALM)
        assert await made.wrong() == []
        after = made.requests()
        assert {name: after[name] - before[name] for name in after if name != "GET"} == {
            name: 0 for name in after if name != "GET"
        }
        print(
            f"\n{count} data planes, {made.changes} changes; settled after "
            f"{', '.join(f'{each:.0f}' for each in took)} s of virtual time; "
            f"{time.process_time() - started:.0f} s of processor time; requests {after}"
        )
