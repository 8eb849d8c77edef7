"""Two managers, one lease: the leader stands still or dies, the other goes on, nobody writes twice.

The proxy's log knows the two apart, for each is a user of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ctrlruntime.client.errors import NotFound
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy.log import LEASES
from ctrlruntime.envtest.proxy.requests import WRITES
from manager.options import LEADER_ELECTION_ID
from tests.manifests.installation import NAMESPACE as SYSTEM
from tests.tenancy.fault_scenario import Ending, Story, sample_lists
from tests.tenancy.harness import CONFIG_MAP, World, mapping

pytestmark = [pytest.mark.criterion("hand-over"), pytest.mark.slow]

USERS = ("manager", "rival")
SMALL = {name: sample_lists()[name] for name in ("configMaps", "secrets")}
ASIDE = {LEASES, "events.events.k8s.io"}
LEASE = 12.0
"""Seconds: a leader that a busy machine keeps from renewing so long would lose it."""
LONG = 600.0
"""Seconds: longer than any wait."""
"""Seconds."""
LEASE_KIND = mapping("coordination.k8s.io/v1", "Lease")


async def compete(world: World, user: str, lease: float) -> ChildProcess:
    command = [sys.executable, "-m", "tests.tenancy.candidate_process"]
    command += [str(world.environment.kubeconfig(user)), str(world.folder), user, str(lease)]
    return await ChildProcess.start(command, log=world.folder / f"{user}.log", ready=False)


@asynccontextmanager
async def contest(
    folder: Path, *, lease: float = LEASE
) -> AsyncIterator[tuple[World, dict[str, ChildProcess]]]:
    """A world with two managers; the first to start leads."""
    async with World.start(folder, manager=False, users=("admin", *USERS)) as world:
        await free_the_lease(world)
        processes = {}
        try:
            for user in USERS:
                processes[user] = await compete(world, user, lease)
                await world.eventually(lambda: leader(world), bool)
            yield world, processes
        finally:
            for process in processes.values():
                if process.returncode is None:
                    os.kill(process.pid, signal.SIGCONT)
                await process.stop()


async def free_the_lease(world: World) -> None:
    """Of a contest before this one."""
    with contextlib.suppress(NotFound):
        await world.client.delete(LEASE_KIND, LEADER_ELECTION_ID, namespace=SYSTEM)


async def leader(world: World) -> str:
    """Who holds the lease."""
    lease = await world.get(LEASE_KIND, LEADER_ELECTION_ID, namespace=SYSTEM)
    return "" if lease is None else str(lease["spec"].get("holderIdentity") or "")


async def tell(world: World) -> Story:
    story = await Story.make(world, SMALL)
    story.users = frozenset(USERS)
    return story


def writes_of(world: World, user: str) -> list[str]:
    """What a user wrote. Leases aside, and the events that tell of the loss."""
    return [
        f"{entry.verb} {entry.resource} {entry.name} {entry.code}"
        for entry in world.environment.proxy.log.entries()
        if entry.user == user and entry.verb in WRITES and entry.resource not in ASIDE
    ]


async def calm(world: World) -> Ending:
    return await (await tell(world)).tell()


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(signal.SIGSTOP, id="stands still"),
        pytest.param(signal.SIGKILL, id="dies", marks=pytest.mark.matrix),
    ],
)
async def test_the_other_manager_goes_on_where_the_leader_ended(
    tmp_path: Path, how: signal.Signals
) -> None:
    async with contest(tmp_path) as (world, processes):
        expected = await calm(world)
        assert await leader(world) == USERS[0]
        assert writes_of(world, USERS[1]) == [], "a follower writes nothing"
        story = await tell(world)
        await story.begin()
        os.kill(processes[USERS[0]].pid, how)
        changing = asyncio.create_task(story.change())
        await world.eventually(lambda: leader(world), lambda who: who == USERS[1])
        await changing
        ended = writes_of(world, USERS[0])
        if how is signal.SIGSTOP:
            await stir(world, story)
            os.kill(processes[USERS[0]].pid, signal.SIGCONT)
            assert await asyncio.wait_for(processes[USERS[0]].wait(), 90) == 1
        ending = await story.end()
        assert ending.objects == expected.objects
        assert set(ending.reborn) <= {"ConfigMap/a-settings"}
        late = writes_of(world, USERS[0])[len(ended) :]
        assert late == [], "the old leader wrote after it lost the lease"


async def stir(world: World, story: Story) -> None:
    """Things happen that the old leader hears of the moment it wakes up, and would mend."""
    for _ in range(3):
        await world.client.delete(CONFIG_MAP, "a-settings", namespace=story.fleet.namespace)
        await story.fleet.there(CONFIG_MAP, "a-settings")


@pytest.mark.matrix
async def test_an_orderly_stop_hands_over_at_once(tmp_path: Path) -> None:
    """The lease is given up: nobody waits until it ends, which takes longer than the test does."""
    async with contest(tmp_path, lease=LONG) as (world, processes):
        story = await tell(world)
        await story.begin()
        await processes[USERS[0]].stop()
        await world.eventually(lambda: leader(world), lambda who: who == USERS[1])
        await story.change()
        ending = await story.end()
        assert ending.reborn == []
