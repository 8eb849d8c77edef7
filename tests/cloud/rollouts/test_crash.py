"""The manager, a real process, is killed at each of its writes while a rollout runs, or is returned."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Literal

import pytest

from ctrlruntime.envtest.proxy import Kill, Match
from tests.cloud.rollouts.harness import NEW, OLD, Fleet
from tests.tenancy.manager_forkserver import ForkServer

pytestmark = pytest.mark.criterion("RO-FLEET-CRASH")

MOST_LIVES = 80
BUDGET = 2


async def one_life(
    fleet: Fleet, forkserver: ForkServer, when: Literal["before", "after"], end: str
) -> bool:
    """Run a manager that dies at its first write; whether it died before the rollout was at its end."""
    kubeconfig = str(fleet.environment.kubeconfig("manager"))
    process = await forkserver.start(
        [kubeconfig],
        log=fleet.folder / "manager.log",
        entry="tests.cloud.rollouts.manager_main:main",
    )
    killed = asyncio.Event()
    proxy = fleet.environment.proxy
    rule = proxy.add(
        Kill(pid=process.pid, when=when),
        Match(user="manager", verb="write", resource="*.cloud.ctrlruntime.dev*"),
        notify=lambda *_: killed.set(),
    )

    async def over() -> bool:
        return killed.is_set() or (await fleet.status()).phase == end

    try:
        await fleet.wait(over, f"a write, or {end}")
        return killed.is_set()
    finally:
        proxy.remove(rule)
        await process.stop(grace=0)


async def crash_until(fleet: Fleet, forkserver: ForkServer, first: str, end: str) -> int:
    """Start managers that die in turns before and after their first write, until the rollout is at its end."""
    order: list[Literal["before", "after"]] = ["before", "after"]
    if first == "after":
        order.reverse()
    for life in range(MOST_LIVES):
        if not await one_life(fleet, forkserver, order[life % 2], end):
            return life
    raise AssertionError(f"not {end} after {MOST_LIVES} lives: {await fleet.status()}")


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", ["before", "after"])
async def test_a_manager_killed_at_each_write_changes_every_instance_once_within_the_budget(
    tmp_path: Path, first: str
) -> None:
    async with (
        ForkServer.running() as forkserver,
        Fleet.start(tmp_path, manager=False) as fleet,
    ):
        await fleet.create_instances(5)
        await fleet.roll_out(maxConcurrent=BUDGET)
        kills = await crash_until(fleet, forkserver, first, "Complete")
        assert kills >= 5
        assert sorted(name for name, _ in fleet.assignments) == sorted(await fleet.versions())
        assert set((await fleet.versions()).values()) == {NEW}
        assert fleet.most_changing <= BUDGET


@pytest.mark.slow
@pytest.mark.timeout(1200)
async def test_a_manager_killed_at_each_write_returns_exactly_the_changed_instances(
    tmp_path: Path,
) -> None:
    spec: dict[str, Any] = {"maxConcurrent": BUDGET, "onHalt": "Rollback"}
    async with (
        ForkServer.running() as forkserver,
        Fleet.start(tmp_path, manager=False) as fleet,
    ):
        fleet.bad.add(NEW)
        await fleet.create_instances(5)
        await fleet.roll_out(**spec)
        assert await crash_until(fleet, forkserver, "before", "RolledBack") >= 3
        changed = sorted(name for name, version in fleet.assignments if version == NEW)
        restored = sorted(name for name, version in fleet.assignments if version == OLD)
        assert changed
        assert changed == restored
        assert set((await fleet.versions()).values()) == {OLD}
