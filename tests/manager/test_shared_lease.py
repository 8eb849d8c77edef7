"""Leaders of different Leases that share one: beside them no manager leads that competes for that one alone."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack

import pytest
import structlog

from ctrlruntime.manager.election import ElectionOptions, LeaderElector
from ctrlruntime.manager.shared_lease import SHARED_HOLDER, SharingLock
from tests.manager.test_election import Candidate, Lock, Store, now, running

pytestmark = [pytest.mark.looptime, pytest.mark.criterion("S-A2")]

EXPIRY = 2 * ElectionOptions().lease_duration
PARTS = ("tenancy", "cloud", "cosmos")


class Part(Candidate):
    """A candidate of one part: it leads by a Lease of its own, beside those of the other parts."""

    def __init__(self, own: Store, name: str, shared: Store) -> None:
        super().__init__(own, name)
        self.together = Lock(shared)
        elector = self.elector
        lock = SharingLock(self.lock, self.together, elector.options, now)
        self.elector = LeaderElector(
            lock, name, elector.options, self, structlog.get_logger(), metrics=self
        )


@pytest.fixture
async def shared() -> Store:
    return Store()


async def test_parts_lead_beside_each_other_and_no_whole_beside_them(shared: Store) -> None:
    parts = [Part(Store(), name, shared) for name in PARTS]
    whole = Candidate(shared, "whole")
    async with running(*parts) as tasks:
        await asyncio.gather(*(each.started.wait() for each in parts))
        assert shared.record is not None
        assert (shared.record.holder, shared.record.lease_duration) == (SHARED_HOLDER, EXPIRY)
        async with running(whole):
            await asyncio.sleep(600)
            assert not whole.started.is_set()
            assert not any(each.stopped.is_set() for each in parts)
            for task in tasks[1:]:
                task.cancel()
            await asyncio.sleep(600)
            assert not whole.started.is_set(), "one part leads still"
            tasks[0].cancel()
            ended = now()
            await whole.started.wait()
            assert now() - ended <= EXPIRY + 5


@pytest.mark.parametrize("release", [True, False], ids=["stopped", "killed"])
async def test_no_part_leads_before_the_whole_has_ended(release: bool, shared: Store) -> None:
    options = ElectionOptions(release_on_exit=release)
    whole, standby = Candidate(shared, "whole", options), Candidate(shared, "standby", options)
    parts = [Part(Store(), name, shared) for name in PARTS]
    async with AsyncExitStack() as stack:
        (leader,) = await stack.enter_async_context(running(whole))
        await whole.started.wait()
        (second,) = await stack.enter_async_context(running(standby))
        await stack.enter_async_context(running(*parts))
        await asyncio.sleep(300)
        assert not any(each.started.is_set() for each in parts)
        second.cancel()
        await asyncio.sleep(1)
        leader.cancel()
        ended = now()
        await asyncio.gather(*(each.started.wait() for each in parts))
        assert now() - ended <= (0 if release else 15) + 5
        assert release or now() - ended > 10, "it may write until its lease ends"


async def test_a_part_that_cannot_renew_the_shared_lease_gives_up_before_it_expires(
    shared: Store,
) -> None:
    part, whole = Part(Store(), "tenancy", shared), Candidate(shared, "whole")
    async with running(part):
        await part.started.wait()
        await asyncio.sleep(20)
        part.together.store = Store()
        part.together.store.down = True
        async with running(whole):
            async with asyncio.timeout(600):
                await part.stopped.wait()
            assert not whole.started.is_set()
            await whole.started.wait()


@pytest.mark.parametrize("seed", range(20))
async def test_whole_and_parts_never_lead_at_once(seed: int, shared: Store) -> None:
    """Candidates come, stop and are killed in a drawn order; conflicts and outages are drawn as well."""
    drawn = random.Random(seed)
    own = {name: Store() for name in PARTS}

    def make() -> Candidate:
        part = drawn.choice([*PARTS, ""])
        return Part(own[part], part, shared) if part else Candidate(shared, f"w{now()}")

    async with AsyncExitStack() as stack:
        entered: list[tuple[Candidate, asyncio.Task[None]]] = []
        for _ in range(40):
            candidate = make()
            candidate.elector.options = ElectionOptions(release_on_exit=drawn.random() < 0.5)
            (task,) = await stack.enter_async_context(running(candidate))
            entered.append((candidate, task))
            for _ in range(drawn.randint(1, 60)):
                await asyncio.sleep(0.5)
                writing = [c for c, _ in entered if c.elector.term.may_write_until > now()]
                wholes = [c for c in writing if c.lock.store is shared]
                assert len(wholes) <= 1
                assert not wholes or writing == wholes
            shared.conflicts = drawn.choice([0, 0, 1, 7])
            shared.down = drawn.random() < 0.1
            if len(entered) > 4:
                entered.pop(drawn.randrange(len(entered)))[1].cancel()
