"""Leader election with real processes: the log of the proxy before the API server is the witness."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import pytest

from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.proxy.log import LogEntry
from ctrlruntime.envtest.proxy.rules import Cut, Match
from tests.backends import SharedServer
from tests.election_real.candidate import TIMES
from tests.election_real.contest import (
    Contest,
    candidates,
    contest,
)

pytestmark = [pytest.mark.criterion("hand-over"), pytest.mark.slow]

SETTLE = 2.0
"""Seconds after a hand-over in which an old leader that lives may do what it must not."""


@asynccontextmanager
async def before(server: SharedServer | None) -> AsyncIterator[Contest]:
    if server is None:
        environment = Environment(authorization="RBAC", users=candidates(), proxy=True)
    else:
        environment = server.environment(users=candidates(), proxy=True, tls=True)
    async with environment, contest(environment) as subject:
        yield subject


@pytest.fixture
async def real(real_server: SharedServer) -> AsyncIterator[Contest]:
    async with before(real_server) as subject:
        yield subject


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def either(request: pytest.FixtureRequest) -> AsyncIterator[Contest]:
    real = request.param == "kube-apiserver"
    async with before(request.getfixturevalue("real_server") if real else None) as subject:
        yield subject


async def test_a_stopped_leader_hands_over_at_once(either: Contest) -> None:
    """With times where polls alone would take longer than the test waits."""
    await either.enter_both(("--slow-times",), ("--slow-times",))
    assert (await either.metric("one"), await either.metric("two")) == (1, 0)
    either.signal("one", signal.SIGTERM)
    await either.handed_over("two")
    assert await either.exit_of("one") == 0
    either.check_one_writer("one", "two")
    assert await either.metric("two") == 1


AHEAD, BEHIND = ("--wall-clock", "3600"), ("--wall-clock", "-3600")


async def test_a_killed_leader_is_succeeded_no_sooner_for_a_clock_that_is_ahead(
    real: Contest,
) -> None:
    """To the candidate every renewal looks two hours old."""
    await real.enter_both(BEHIND, AHEAD)
    await asyncio.sleep(TIMES.lease_duration + TIMES.retry_period)
    assert not real.held("two"), "a lease that is renewed was taken"
    real.signal("one", signal.SIGKILL)
    await real.handed_over("two")
    real.check_one_writer("one", "two")


@pytest.mark.parametrize("busy", [False, True], ids=["idle", "in the middle of a long turn"])
async def test_a_leader_that_stood_still_writes_nothing_when_it_wakes_up(
    real: Contest, busy: bool
) -> None:
    """To the candidate its last renewal lies two hours in the future."""
    await real.enter_both(("--block", "1", *AHEAD), BEHIND)
    if busy:  # writes are queued behind the turn
        real.signal("one", signal.SIGUSR1)
        await asyncio.sleep(0.3)
    real.signal("one", signal.SIGSTOP)
    await real.handed_over("two")
    real.signal("one", signal.SIGCONT)
    assert await real.exit_of("one") == 1
    await asyncio.sleep(SETTLE / 4)
    real.check_one_writer("one", "two")
    assert "leader election lost" in real.processes["one"].log_tail()


async def test_an_outage_ends_the_leader_and_not_the_work(real: Contest) -> None:
    await real.enter_both()
    outage = [
        real.environment.proxy.add(Cut(), Match(user=user), times=None) for user in ("one", "two")
    ]
    assert await real.exit_of("one") == 1
    assert "leader election lost" in real.processes["one"].log_tail()
    for rule in outage:
        real.environment.proxy.remove(rule)
    await real.handed_over("two")
    real.check_one_writer("one", "two")


async def test_a_leader_cut_off_from_the_server_stops_before_the_other_starts(
    real: Contest,
) -> None:
    """Its writes still get through: only the renewals do not."""
    await real.enter_both()
    cut = real.now
    match = Match(user="one", resource="leases.coordination.k8s.io")
    real.environment.proxy.add(Cut(), match, times=None)
    await real.handed_over("two")
    assert await real.exit_of("one") == 1
    assert real.beats("one")[-1].began > cut
    assert real.writes("one")[-1].began - real.held("one")[-1].began < TIMES.lease_duration
    real.check_one_writer("one", "two")


@pytest.mark.parametrize("how", [signal.SIGUSR1, signal.SIGUSR2], ids=["system call", "Python"])
async def test_renewal_does_not_wait_for_a_busy_loop(real: Contest, how: signal.Signals) -> None:
    """For less than the lease. The log may have the last beat before it a moment late."""
    busy = TIMES.lease_duration - 2
    await real.enter_both(("--block", str(busy)))
    real.signal("one", how)
    await real.until(lambda: silences(real.beats("one"), busy - 1))
    begin, end = silences(real.beats("one"), busy - 1)[0]
    assert len([entry for entry in real.held("one") if begin < entry.began < end]) >= 3
    assert not real.held("two")
    assert real.processes["one"].returncode is None


def silences(entries: list[LogEntry], seconds: float) -> list[tuple[float, float]]:
    """From when to when nothing began for so long."""
    times = [entry.began for entry in entries]
    return [(one, other) for one, other in pairwise(times) if other - one >= seconds]


async def test_a_turn_that_outlasts_the_lease_ends_in_silence(real: Contest) -> None:
    """The loop is busy while the renewals fail: nobody told it when it goes on, but the clock."""
    busy = TIMES.lease_duration + 2
    await real.enter_both(("--block", str(busy)))
    real.signal("one", signal.SIGUSR2)
    match = Match(user="one", resource="leases.coordination.k8s.io")
    real.environment.proxy.add(Cut(), match, times=None)
    await real.handed_over("two")
    assert await real.exit_of("one") == 1
    real.check_one_writer("one", "two")


@pytest.mark.criterion("S-D4")
@pytest.mark.parametrize("how", [signal.SIGUSR1, signal.SIGUSR2], ids=["system call", "Python"])
async def test_a_leader_that_stands_still_gives_up_the_lead(
    either: Contest, how: signal.Signals
) -> None:
    """The other leads while its renewals would be valid for long; the old one wakes up later, and ends."""
    await either.enter_both(("--block", str(TIMES.lease_duration * 1.5)))
    either.signal("one", how)
    taken = await either.handed_over("two")
    released = either.held("one")[-1]
    renewed = either.held("one")[-2]
    assert released.began <= taken.began < renewed.began + TIMES.lease_duration
    assert either.processes["one"].returncode is None, "it woke up before the other led"
    assert await either.exit_of("one") == 1
    either.check_one_writer("one", "two")
    assert "the event loop stood still" in either.processes["one"].log_tail()
