"""A member that is killed while its tasks run: another one goes on with them."""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from apis.cloud import Instance
from tests.cloud.crash.test_crash import manifest
from tests.cloud.run_processes import end_runs
from tests.cloud.sharded.harness import SharedInstances
from tests.cosmos.sharded.members import USERS, name_of, owners
from tests.support.leases import end_leases
from tests.support.waiting import eventually
from tests.tenancy.manager_forkserver import ForkServer

ONE, TWO, _ = USERS
LIMIT = 1


@pytest.mark.criterion("SH-39")
@pytest.mark.parametrize("killed", [ONE, TWO], ids=["the leader", "a member"])
async def test_a_member_that_is_killed_in_a_task_is_replaced_and_no_task_runs_again(
    tmp_path: Path, killed: str
) -> None:
    """Seconds: two processes start, and tasks of two seconds run."""
    owned = owners([ONE], [ONE, TWO])
    names = [name_of(owned, user, "default") for user in (ONE, TWO)]

    def record() -> list[dict[str, Any]]:
        path = tmp_path / "record"
        return [json.loads(each) for each in path.read_text().splitlines()] if path.exists() else []

    def holds(log: Path) -> bool:
        return "Slots are held" in log.read_text()

    def began(instance: str) -> bool:
        return any((each["word"], each["instance"]) == ("began", instance) for each in record())

    async with (
        SharedInstances.with_members(tmp_path) as shared,
        ForkServer.running() as forkserver,
    ):
        processes = {}
        try:
            for user in (ONE, TWO):
                log = tmp_path / f"{user}.log"
                kubeconfig = str(shared.environment.kubeconfig(user))
                args = [kubeconfig, str(tmp_path / "runs"), str(tmp_path / "record")]
                processes[user] = await forkserver.start(
                    [*args, user, str(LIMIT)], log=log, entry="tests.cloud.crash.manager_main:main"
                )
                await eventually(partial(holds, log), timeout=60)
            mine = names[USERS.index(killed)]
            order = [mine, *(each for each in names if each != mine)]
            for name in order:
                made = manifest()
                made["metadata"]["name"] = name
                await shared.apply(made)
            await eventually(lambda: began(mine), timeout=60)
            processes[killed].kill()
            await processes[killed].wait()
            await end_leases(shared.client, killed, namespace="default")

            async def ready() -> bool:
                found = await shared.client.list(Instance, "default")
                return {each.status.phase for each in found} == {"Ready"}

            await eventually(ready, timeout=120)
        finally:
            for each in processes.values():
                await each.stop()
            end_runs(tmp_path / "runs")
    runs = Counter(
        (each["task"], each["instance"], each["inputs"])
        for each in record()
        if each["word"] == "began"
    )
    assert {*runs.values()} == {1}, runs
    assert {task for task, *_ in runs} == {"terraform", "kubernetes", "invariants"}
    assert most_at_once(record()) == LIMIT


def most_at_once(found: list[dict[str, Any]]) -> int:
    """How many tasks of terraform there were at once."""
    live = most = 0
    for each in found:
        if each["task"] == "terraform":
            live += 1 if each["word"] == "began" else -1
            most = max(most, live)
    return most
