"""The operator while data planes come and go, in virtual time; `make sim-scale PLANES=1000` has many of them."""

from __future__ import annotations

import time

import pytest

from tests.fleet.simulation.harness import Work, harness, some

pytestmark = [pytest.mark.slow, pytest.mark.looptime(noop_cycles=10)]
ROUNDS = 4
SHARE = 0.2
"""Of the data planes, that something happens to in each round."""
CALM = 660.0
"""Seconds of virtual time without a change: every watch is opened anew meanwhile."""
DEPLOYMENT = 15
"""Reconciliations of a namespace until its stack is deployed and healthy, at most."""
STATUSES = 8
"""Reconciliations of the FleetConfig meanwhile, at most, however many namespaces there are."""
HOUR = 3700.0
"""Seconds of virtual time, a little more than an hour."""


@pytest.fixture
def count(request: pytest.FixtureRequest) -> int:
    """How many data planes there are."""
    return int(request.config.getoption("--planes"))


async def test_every_entry_follows_its_own_data_plane_and_nothing_is_done_while_all_is_calm(
    count: int,
) -> None:
    started = time.process_time()
    async with harness(count, seed=13) as made:
        await made.mend()
        took = [await made.wait_settled()]
        done = made.work().reconciliations
        assert done["fleetnamespace"] <= DEPLOYMENT * count
        assert done["fleetconfig"] <= STATUSES
        for _ in range(ROUNDS):
            for plane in some(made.draw, made.planes, SHARE):
                await made.change(plane)
            took.append(await made.wait_settled())
        await made.mend()
        took.append(await made.wait_settled())
        calm = await made.rest(CALM)
        assert not more_than_watches(calm), calm
        print(
            f"\n{count} data planes, {made.changes} changes; settled after "
            f"{', '.join(f'{each:.0f}' for each in took)} s of virtual time; "
            f"{time.process_time() - started:.0f} s of processor time; requests {dict(made.work().requests)}; "
            f"while calm {dict(calm.requests)}, {calm.reconciliations.total()} reconciliations"
        )


async def test_an_hour_of_calm_takes_no_reconciliation() -> None:
    async with harness(2, seed=13) as made:
        await made.mend()
        await made.wait_settled()
        calm = await made.rest(HOUR)
        assert not more_than_watches(calm), calm


def more_than_watches(work: Work) -> bool:
    """Whether more was done than to open watches anew, with one request each."""
    gets, opened = work.requests["GET"], work.watches_restarted.total()
    others = work.requests.total() - gets + work.reconciliations.total()
    return others > 0 or gets > opened
