"""A manager without slots works on every object: it never leads beside members, nor does a member work beside it."""

from __future__ import annotations

import asyncio

import pytest

from ctrlruntime.client.config import Config
from ctrlruntime.manager import ElectionOptions, Manager
from ctrlruntime.sharding import ALL_SLOTS, ShardingOptions
from tests.support.manager_harness import make_manager
from tests.support.waiting import eventually

QUICK = ElectionOptions(lease_duration=4.0, renew_deadline=3.5, retry_period=0.1)
pytestmark = pytest.mark.criterion("SH-26")


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
    config: Config, first: str
) -> None:
    """Seconds: the Lease of the one is waited for, for longer than it lasts."""
    async with asyncio.timeout(60):
        member = manager(config, "one", slots=ALL_SLOTS)
        former = manager(config, "" if first == "alone" else "other", ALL_SLOTS, group="former")
        async with former.running(leading=former.shards is None):
            if former.shards is not None:
                await eventually(lambda: held_by(former), lambda held: held == ALL_SLOTS)
            running = asyncio.create_task(member.start())
            await asyncio.sleep(QUICK.lease_duration * 1.2)
            assert not held_by(member)
            assert not member.elected.is_set()
        await eventually(lambda: held_by(member), lambda held: held == ALL_SLOTS)
        await ended(running)


async def test_a_manager_that_works_alone_does_not_lead_beside_a_member(config: Config) -> None:
    """Seconds: the Lease that members hold together is not given back but runs out."""
    async with asyncio.timeout(60):
        alone = manager(config)
        async with manager(config, "one").running() as member:
            await eventually(lambda: held_by(member), lambda held: held == ALL_SLOTS)
            running = asyncio.create_task(alone.start())
            await asyncio.sleep(QUICK.lease_duration * 1.2)
            assert not alone.elected.is_set()
        await alone.elected.wait()
        await ended(running)


def held_by(member: Manager) -> frozenset[int]:
    return frozenset() if member.shards is None else member.shards.held


async def ended(running: asyncio.Task[None]) -> None:
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
