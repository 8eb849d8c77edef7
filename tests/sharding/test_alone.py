"""A manager without slots works on every object: it never leads beside members, nor does a member work beside it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.manager import ElectionOptions, Manager
from ctrlruntime.manager.lease import LEASE
from ctrlruntime.sharding import ALL_SLOTS, ShardingOptions
from tests.support.clocks import standing_still
from tests.support.manager_harness import make_manager
from tests.support.waiting import eventually

QUICK = ElectionOptions(lease_duration=90.0, renew_deadline=80.0, retry_period=0.05)
STEP = 60.0
"""Seconds that pass at once: fewer than whoever renews may miss."""
IDENTITY = f"{socket.gethostname()}_"
"""What names of processes begin with."""
LetPass = Callable[[float], None]
pytestmark = pytest.mark.criterion("SH-26")


@pytest.fixture
def let_pass() -> Iterator[LetPass]:
    with standing_still() as let_pass:
        yield let_pass


def manager(
    config: Config,
    member: str = "",
    slots: frozenset[int] | None = None,
    group: str = "test",
) -> Manager:
    """A manager of one installation: alone, or a member."""
    sharding = ShardingOptions(group=group, member=member, slots=slots, settle=0.0)
    return make_manager(
        config,
        leader_election=True,
        leader_election_id="tests",
        leader_election_namespace="default",
        election=QUICK,
        graceful_shutdown_timeout=5.0,
        sharding=sharding if member else None,
    )


@pytest.mark.parametrize("first", ["alone", "of another group"])
async def test_no_member_works_beside_a_manager_that_leads_alone_or_in_another_group(
    config: Config, first: str, let_pass: LetPass
) -> None:
    """The Lease of the one is waited for, for longer than it lasts."""
    member = manager(config, "one", slots=ALL_SLOTS)
    former = manager(config, "" if first == "alone" else "other", ALL_SLOTS, group="former")
    async with former.running(leading=former.shards is None):
        if former.shards is not None:
            await eventually(lambda: held_by(former), lambda held: held == ALL_SLOTS)
        running = asyncio.create_task(member.start())
        await a_term_passes(config, let_pass)
        assert not held_by(member)
        assert not member.elected.is_set()
    await as_time_passes(let_pass, lambda: held_by(member) == ALL_SLOTS)
    await ended(running)


async def test_a_manager_that_works_alone_does_not_lead_beside_a_member(
    config: Config, let_pass: LetPass
) -> None:
    """The Lease that members hold together is not given back but runs out."""
    alone = manager(config)
    async with manager(config, "one").running() as member:
        await eventually(lambda: held_by(member), lambda held: held == ALL_SLOTS)
        running = asyncio.create_task(alone.start())
        await a_term_passes(config, let_pass)
        assert not alone.elected.is_set()
    await as_time_passes(let_pass, alone.elected.is_set)
    await ended(running)


async def a_term_passes(config: Config, let_pass: LetPass) -> None:
    """Let more time pass than the shared Lease lasts. After each step every own Lease is renewed twice: once may have been under way."""
    async with Client.connect(config) as client:

        async def own() -> dict[str, str]:
            """Return the versions of the Leases of processes: the others are renewed less often, or never."""
            return {
                each["metadata"]["name"]: each["metadata"]["resourceVersion"]
                for each in await client.list(LEASE, "default")
                if str(each["spec"].get("holderIdentity")).startswith(IDENTITY)
            }

        for _ in range(5):
            let_pass(STEP)
            for _ in range(2):
                await eventually(own, partial(renewed, await own()))


def renewed(before: dict[str, str], found: dict[str, str]) -> bool:
    return not found.items() & before.items()


async def as_time_passes(let_pass: LetPass, holds: Callable[[], object]) -> None:
    """Wait until it holds. The time that passes leaves those who renew their Leases many turns of the loop."""
    while not holds():
        let_pass(STEP)
        for _ in range(300):
            await asyncio.sleep(0.001)


def held_by(member: Manager) -> frozenset[int]:
    return frozenset() if member.shards is None else member.shards.held


async def ended(running: asyncio.Task[None]) -> None:
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
