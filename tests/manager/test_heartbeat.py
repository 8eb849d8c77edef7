"""S-D4: a leader whose loop stands still for longer than the lease gives up the lead; on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import structlog

from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.events import EventRecorder
from ctrlruntime.manager import ManagerOptions
from ctrlruntime.manager.election import ElectionOptions
from ctrlruntime.manager.health import CheckFailed
from ctrlruntime.manager.leadership import LAST_BYTES, LeaderElectionLost, Leadership
from ctrlruntime.manager.loopthread import PERIOD, Heartbeat
from ctrlruntime.manager.metrics import Metrics
from tests.manager.test_election import Candidate, Store, now, running
from tests.support.waiting import eventually

pytestmark = [pytest.mark.criterion("S-D4"), pytest.mark.looptime]

LEASE = ElectionOptions().lease_duration


class OwnerLoop:
    """The loop of a manager: it runs what it is called for, or keeps it while it stands still."""

    def __init__(self) -> None:
        self.still = False
        self._waiting: list[Callable[[], None]] = []

    def call_owner(self, function: Callable[[], None]) -> None:
        self._waiting.append(function)
        if not self.still:
            self.turn()

    def turn(self) -> None:
        """Go on."""
        self.still = False
        waiting, self._waiting = self._waiting, []
        for function in waiting:
            function()


class Leader:
    """A manager's leadership over a lock in memory."""

    def __init__(self, store: Store, client: Client) -> None:
        self.loop = OwnerLoop()
        self.errors: list[Exception] = []
        self.candidate = Candidate(store, "first")
        logger = structlog.get_logger()
        self.leadership = Leadership(
            Config(host="http://127.0.0.1:1"),
            ManagerOptions(
                leader_election=True, leader_election_id="x", leader_election_events=False
            ),
            Metrics(),
            EventRecorder(client, "tests"),
            logger,
            self._lead,
            self.errors.append,
            clock=now,
        )
        self.elector = self.candidate.elector
        self.elector._callbacks = self.leadership
        self.leadership._elector = self.elector
        self.leadership._call_owner = self.loop.call_owner

    async def _lead(self) -> None: ...

    def may_write(self) -> bool:
        try:
            self.leadership.fence()
        except LeaderElectionLost:
            return False
        return True


@asynccontextmanager
async def leading() -> AsyncIterator[tuple[Leader, Candidate]]:
    """A leader that has led for five seconds, and one that stands by."""
    store = Store()
    async with Client.connect(Config(host="http://127.0.0.1:1")) as client:
        leader = Leader(store, client)
        election = asyncio.create_task(leader.leadership._run(leader.elector, lambda: False))
        await asyncio.sleep(5)
        standby = Candidate(store, "second", ElectionOptions(retry_period=0.2))
        try:
            async with running(standby):
                yield leader, standby
        finally:
            election.cancel()
            await asyncio.gather(election, return_exceptions=True)


async def test_a_standby_leads_within_the_lease_and_two_seconds() -> None:
    async with leading() as (leader, standby):
        began, leader.loop.still = now(), True
        await eventually(lambda: not leader.may_write(), timeout=LEASE + 2)
        closed = now()
        await standby.started.wait()
        assert closed - began > LEASE
        assert closed + LAST_BYTES <= now() < began + LEASE + 2
        assert not leader.may_write()
        with pytest.raises(
            CheckFailed, match=r"stood still for 15 s, longer than the lease of 15 s"
        ):
            leader.leadership.check()
        assert leader.errors == []
        leader.loop.turn()
        (error,) = leader.errors
        assert isinstance(error, LeaderElectionLost)
        assert "stood still" in str(error)


async def test_a_loop_that_turns_again_within_the_lease_keeps_the_lead() -> None:
    async with leading() as (leader, standby):
        for _ in range(3):
            leader.loop.still = True
            await asyncio.sleep(LEASE - 0.1)
            leader.loop.turn()
            await asyncio.sleep(2 * PERIOD)
        assert leader.may_write()
        leader.leadership.check()
        assert not standby.started.is_set()


async def test_a_renewal_under_way_does_not_open_the_fence_again() -> None:
    async with leading() as (leader, _):
        lock = leader.candidate.lock
        lock.late = 1.0
        sent, written = len(lock.sent), lock.store.version
        await eventually(lambda: len(lock.sent) > sent)
        leader.elector.give_up()
        await eventually(lambda: lock.store.version > written)
        await asyncio.sleep(0.1)
        assert not leader.may_write()


def test_a_pause_of_the_whole_process_is_not_one_of_the_loop() -> None:
    time, loop = [0.0], OwnerLoop()
    heartbeat = Heartbeat(loop.call_owner, lambda: time[0])
    loop.still = True
    heartbeat.measure()
    time[0] += 3600
    assert heartbeat.measure() == 2 * PERIOD
