"""The manager, a real process, is killed before and after each write of a rollout that rolls back."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any, Literal

import pytest

from apis.tenancy import Tenant
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import Kill, Match
from ctrlruntime.envtest.proxy.requests import WRITES
from tests.tenancy.fleet import Fleet
from tests.tenancy.forked_manager import fork_manager
from tests.tenancy.harness import PATIENCE, STATUS_PERIOD, TenancyHarness
from tests.tenancy.manager_forkserver import ForkServer
from tests.tenancy.rollout_fleet import bad_content, content, put, status, values

pytestmark = [pytest.mark.asyncio, pytest.mark.criterion("RO-4"), pytest.mark.matrix]

ROLLOUT: dict[str, Any] = {"maxSkew": 2, "haltOnFailures": 1, "onHalt": "Rollback"}
TENANTS = "tenants.tenancy.ctrlruntime.dev"
REVISIONS = "controllerrevisions.apps"
UIDS = ("a", "b", "c", "d")
MOST_LIVES = 60


async def start(harness: TenancyHarness, forkserver: ForkServer) -> ChildProcess:
    return await fork_manager(harness, forkserver, status_period=STATUS_PERIOD)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_manager_killed_at_each_write_returns_exactly_the_changed_tenants(
    tmp_path: Path, forkserver: ForkServer, when: Literal["before", "after"]
) -> None:
    async with TenancyHarness.start(tmp_path, manager=False) as harness:
        fleet = await Fleet.make(harness)
        fleet.rows(*UIDS)
        await fleet.registry()
        await put(fleet, content("one"))
        names = [f"{uid}-app" for uid in UIDS]
        first = await start(harness, forkserver)
        await fleet.ready(*names)
        await first.stop(grace=0)
        before = await _generations(fleet)

        mark = harness.environment.proxy.log.mark()
        await put(fleet, bad_content(), **ROLLOUT)
        kills = await _live(harness, fleet, forkserver, when)
        assert kills >= (3 if when == "after" else 2), "a revision, and a tenant there and back"
        assert set((await values(fleet)).values()) == {"one"}
        await fleet.ready(*names)
        after = await _generations(fleet)
        changed = [name for name in names if after[name] != before[name]]
        assert 1 <= len(changed) <= 2
        assert all(after[name] == before[name] + 2 for name in changed), "once there, once back"
        recorded = [
            entry
            for entry in harness.environment.proxy.log.entries(mark)
            if entry.resource == REVISIONS and entry.verb in WRITES and 200 <= entry.code < 300
        ]
        assert len({entry.name for entry in recorded}) == 1


async def _live(
    harness: TenancyHarness, fleet: Fleet, forkserver: ForkServer, when: Literal["before", "after"]
) -> int:
    """Start managers until one is not killed before the rollout is rolled back; the number of kills.

    The n-th manager dies at its n-th write of a tenant or a revision, or at its first one if committed.
    """
    for kills in range(MOST_LIVES):
        process = await start(harness, forkserver)
        killed = asyncio.Event()
        rules = [
            harness.environment.proxy.add(
                Kill(pid=process.pid, when=when),
                Match(user="manager", verb="write", resource=resource),
                nth=1 if when == "after" else kills + 1,
                notify=partial(_set, killed),
            )
            for resource in (TENANTS, REVISIONS)
        ]
        done = asyncio.create_task(
            status(fleet, lambda seen: seen.phase == "RolledBack" and seen.changing == 0)
        )
        gone = asyncio.create_task(killed.wait())
        try:
            await asyncio.wait({done, gone}, return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE)
            if not killed.is_set():
                await done
                await fleet.ready(*(f"{uid}-app" for uid in UIDS))
                if not killed.is_set():
                    return kills
            assert await process.wait() == -9
        finally:
            done.cancel()
            gone.cancel()
            for rule in rules:
                harness.environment.proxy.remove(rule)
            await process.stop(grace=0)
    raise AssertionError(f"not rolled back after {MOST_LIVES} managers")


def _set(event: asyncio.Event, *_: object) -> None:
    event.set()


async def _generations(fleet: Fleet) -> dict[str, int]:
    found = await fleet.harness.client.list(Tenant, fleet.namespace)
    return {item.metadata.name or "": item.metadata.generation or 0 for item in found}
