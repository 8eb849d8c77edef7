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
from tests.tenancy.harness import CONFIG_MAP, TenancyHarness, mapping

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


async def compete(harness: TenancyHarness, user: str, lease: float) -> ChildProcess:
    command = [sys.executable, "-m", "tests.tenancy.candidate_process"]
    command += [str(harness.environment.kubeconfig(user)), str(harness.folder), user, str(lease)]
    return await ChildProcess.start(command, log=harness.folder / f"{user}.log", ready=False)


@asynccontextmanager
async def contest(
    folder: Path, *, lease: float = LEASE
) -> AsyncIterator[tuple[TenancyHarness, dict[str, ChildProcess]]]:
    """A harness with two managers; the first to start leads."""
    async with TenancyHarness.start(folder, manager=False, users=("admin", *USERS)) as harness:
        await free_the_lease(harness)
        processes = {}
        try:
            for user in USERS:
                processes[user] = await compete(harness, user, lease)
                await harness.eventually(lambda: leader(harness), bool)
            yield harness, processes
        finally:
            for process in processes.values():
                if process.returncode is None:
                    os.kill(process.pid, signal.SIGCONT)
                await process.stop()


async def free_the_lease(harness: TenancyHarness) -> None:
    """Of a contest before this one."""
    with contextlib.suppress(NotFound):
        await harness.client.delete(LEASE_KIND, LEADER_ELECTION_ID, namespace=SYSTEM)


async def leader(harness: TenancyHarness) -> str:
    """Who holds the lease."""
    lease = await harness.get(LEASE_KIND, LEADER_ELECTION_ID, namespace=SYSTEM)
    return "" if lease is None else str(lease["spec"].get("holderIdentity") or "")


async def run_story(harness: TenancyHarness) -> Story:
    story = await Story.make(harness, SMALL)
    story.users = frozenset(USERS)
    return story


def writes_of(harness: TenancyHarness, user: str) -> list[str]:
    """What a user wrote. Leases aside, and the events that tell of the loss."""
    return [
        f"{entry.verb} {entry.resource} {entry.name} {entry.code}"
        for entry in harness.environment.proxy.log.entries()
        if entry.user == user and entry.verb in WRITES and entry.resource not in ASIDE
    ]


async def calm(harness: TenancyHarness) -> Ending:
    return await (await run_story(harness)).run_scenario()


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
    async with contest(tmp_path) as (harness, processes):
        expected = await calm(harness)
        assert await leader(harness) == USERS[0]
        assert writes_of(harness, USERS[1]) == [], "a follower writes nothing"
        story = await run_story(harness)
        await story.begin()
        os.kill(processes[USERS[0]].pid, how)
        changing = asyncio.create_task(story.change())
        await harness.eventually(lambda: leader(harness), lambda who: who == USERS[1])
        await changing
        ended = writes_of(harness, USERS[0])
        if how is signal.SIGSTOP:
            await stir(harness, story)
            os.kill(processes[USERS[0]].pid, signal.SIGCONT)
            assert await asyncio.wait_for(processes[USERS[0]].wait(), 90) == 1
        ending = await story.end()
        assert ending.objects == expected.objects
        assert set(ending.reborn) <= {"ConfigMap/a-settings"}
        late = writes_of(harness, USERS[0])[len(ended) :]
        assert late == [], "the old leader wrote after it lost the lease"


async def stir(harness: TenancyHarness, story: Story) -> None:
    """Things happen that the old leader hears of the moment it wakes up, and would mend."""
    for _ in range(3):
        await harness.client.delete(CONFIG_MAP, "a-settings", namespace=story.fleet.namespace)
        await story.fleet.there(CONFIG_MAP, "a-settings")


@pytest.mark.matrix
async def test_an_orderly_stop_hands_over_at_once(tmp_path: Path) -> None:
    """The lease is given up: nobody waits until it ends, which takes longer than the test does."""
    async with contest(tmp_path, lease=LONG) as (harness, processes):
        story = await run_story(harness)
        await story.begin()
        await processes[USERS[0]].stop(grace=60)
        await harness.eventually(lambda: leader(harness), lambda who: who == USERS[1])
        await story.change()
        ending = await story.end()
        assert ending.reborn == []
