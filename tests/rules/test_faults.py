"""Rule 4 of the design: a bad day ends like a calm one.

Sieve's three faults (a stale view, lost events, a crash between writes), over all three systems by one harness;
`test_mutations.py` has Acto's mutation of every leaf of every spec. The objects at the end are those of a run without faults.
`make faults` runs them in full; each failure prints the seed that repeats it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from apis.tenancy import Tenant
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import (
    Action,
    DelayEvents,
    DropEvents,
    Kill,
    LoseReply,
    Match,
    StaleReads,
)
from tests.rules.harness import LIMIT, Harness, mapping_of
from tests.rules.story import Story, outcome
from tests.support.waiting import eventually
from tests.tenancy.manager_forkserver import ForkServer

NAMESPACE, NAME = "team-a", "shop"
FAULTS: dict[str, tuple[Action, str]] = {
    "lost events": (DropEvents(), "watch"),
    "late events": (DelayEvents(seconds=3.0), "watch"),
    "a stale view": (StaleReads(), "read"),
    "a lost reply": (LoseReply(), "write"),
}
"""By name: what happens, and to which requests."""


async def changed(story: Story) -> None:
    """Change one thing of each system, so that there is something to write in the middle of faults."""
    story.row("one", plan="gold")
    client = story.harness.client
    spec = {"podTemplate": {"image": "gaia:v2"}}
    await client.patch(mapping_of("CosmosFullNode").gvk, NAME, {"spec": spec}, namespace=NAMESPACE)
    bundle = {"cluster": {"bundle": {"manifests": [_config("2")]}}}
    await client.patch(mapping_of("Instance").gvk, NAME, {"spec": bundle}, namespace=NAMESPACE)


def _config(edition: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "site"},
        "data": {"version": "${version}", "edition": edition},
    }


async def finished(story: Story) -> dict[str, Any]:
    """Wait until the row was read, all is ready and nothing is written any more; return the outcome."""

    async def plan() -> str:
        tenant = await story.harness.client.get(Tenant, f"one-{NAME}", namespace=NAMESPACE)
        return str(tenant.spec.variables.get("plan"))

    # An idle manager may have a second to go until it reads the table again.
    await eventually(plan, "gold".__eq__, timeout=2 * LIMIT)
    await story.complete(2 * LIMIT)
    await story.harness.idle()
    await story.complete()
    return await outcome(story)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The outcome without faults."""

    async def run() -> dict[str, Any]:
        async with Harness.start(tmp_path_factory.mktemp("calm"), nodes=True) as harness:
            story = Story(harness, NAMESPACE, NAME)
            await story.begin()
            await story.complete()
            await changed(story)
            return await finished(story)

    return asyncio.run(run())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test its seeds: some, or with `--rule-examples 100` and more all that there are."""
    if "seed" in metafunc.fixturenames:
        full = metafunc.config.getoption("--rule-examples") >= 100
        metafunc.parametrize("seed", range(20 if full else 1))


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.criterion("H-R4")
async def test_faults_end_like_a_calm_run(
    fault: str, seed: int, calm: dict[str, Any], tmp_path: Path
) -> None:
    chance = random.Random(f"{fault}-{seed}")
    action, verb = FAULTS[fault]
    async with Harness.start(tmp_path, nodes=True) as harness:
        story = Story(harness, NAMESPACE, NAME)
        proxy = harness.environment.proxy
        match = Match(user="manager", verb=None if verb == "watch" else verb)
        rules = [
            proxy.add(action, match, nth=chance.randint(1, 80), times=chance.randint(1, 12))
            for _ in range(3)
        ]
        await story.begin()
        await asyncio.sleep(chance.uniform(0.5, 4.0))
        await changed(story)
        await asyncio.sleep(chance.uniform(0.5, 2.0))
        for rule in rules:
            proxy.remove(rule)
        if verb != "write":
            await list_again(harness)
        assert await finished(story) == calm


async def list_again(harness: Harness) -> None:
    """Restart the manager: no API server loses events of a watch that it continues, lists show all."""
    await harness.stop_manager()
    await harness.start_manager()


@asynccontextmanager
async def process(harness: Harness, forkserver: ForkServer) -> AsyncIterator[ChildProcess]:
    """A manager as a process of its own."""
    kubeconfig = harness.environment.kubeconfig("manager")
    child = await forkserver.start(
        [str(kubeconfig), str(harness.folder)],
        log=harness.folder / "process.log",
        entry="tests.rules.manager_main:main",
    )
    try:
        yield child
    finally:
        await child.stop()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.criterion("H-R4")
async def test_crashes_between_writes_end_like_a_calm_run(
    seed: int, calm: dict[str, Any], tmp_path: Path
) -> None:
    chance = random.Random(f"crash-{seed}")
    async with (
        Harness.start(tmp_path, nodes=True, manager=False) as harness,
        ForkServer.running() as forkserver,
    ):
        story = Story(harness, NAMESPACE, NAME)
        await story.begin()
        for life in range(8):
            async with process(harness, forkserver) as child:
                when = chance.choice(("before", "after"))
                rule = harness.environment.proxy.add(
                    Kill(pid=child.pid, when="before" if when == "before" else "after"),
                    Match(user="manager", verb="write"),
                    nth=chance.randint(1, 25),
                )
                async with asyncio.timeout(4 * LIMIT):
                    await _until_killed_or_idle(harness, child)
                harness.environment.proxy.remove(rule)
            if life == 3:
                await changed(story)
        async with process(harness, forkserver):
            assert await finished(story) == calm


async def _until_killed_or_idle(harness: Harness, child: ChildProcess) -> None:
    idle = asyncio.create_task(harness.silent(3.0))
    ended = asyncio.create_task(child.wait())
    await asyncio.wait({idle, ended}, return_when=asyncio.FIRST_COMPLETED)
    for task in (idle, ended):
        task.cancel()
    await asyncio.gather(idle, ended, return_exceptions=True)
