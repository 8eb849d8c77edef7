"""Rule 4 of the design: a bad day ends like a calm one.

Sieve's three faults (a stale view, lost events, a crash between writes) and Acto's mutation of every leaf of
every spec, over all three systems by one harness. The objects at the end are those of a run without faults.
`make faults` runs them in full; each failure prints the seed that repeats it.
"""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ctrlruntime.client.errors import APIError, Conflict
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
from tests.tenancy.manager_forkserver import ForkServer

NAMESPACE, NAME = "team-a", "shop"
FAULTS: dict[str, tuple[Action, str]] = {
    "lost events": (DropEvents(), "watch"),
    "late events": (DelayEvents(seconds=3.0), "watch"),
    "a stale view": (StaleReads(), "read"),
    "a lost reply": (LoseReply(), "write"),
}
"""By name: what happens, and to which requests."""
CANNOT_RETURN = ("storage",)
"""Leaves whose former value cannot come back: disks only grow."""


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
    """Wait until all is ready and nothing is written any more; return the outcome."""
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
            await asyncio.sleep(1.0)
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
    idle = asyncio.create_task(harness.idle(3.0))
    ended = asyncio.create_task(child.wait())
    await asyncio.wait({idle, ended}, return_when=asyncio.FIRST_COMPLETED)
    for task in (idle, ended):
        task.cancel()
    await asyncio.gather(idle, ended, return_exceptions=True)


# -- mutations ----------------------------------------------------------------------------------


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Return the paths of all leaves."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    if not items:
        yield path
    for key, item in items:
        yield from leaves(item, (*path, key))


def mutations(value: Any) -> list[Any]:
    """Return other values of the same type, to be tried in turn until the server accepts one."""
    match value:
        case bool():
            return [not value]
        case int():
            return [max(value - 1, 0), value + 1]
        case str():
            return ["changed", "1", "2s", "", f"{value}x"]
    return [None]


def replaced(spec: Any, path: tuple[str | int, ...], value: Any) -> Any:
    """Return the spec with one leaf replaced."""
    made = copy.deepcopy(spec)
    place = made
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return made


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kind", ["TenantRegistry", "TenantTemplate", "Instance", "CosmosFullNode"])
@pytest.mark.criterion("H-R4")
async def test_a_spec_that_was_mutated_and_put_back_is_as_before(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with Harness.start(tmp_path, nodes=True) as harness:
        story = Story(harness, NAMESPACE, NAME)
        await story.begin()
        wanted = await finished(story)
        original = next(each for each in story.manifests() if each["kind"] == kind)["spec"]
        paths = [path for path in leaves(original) if path[-1] not in CANNOT_RETURN]
        if request.config.getoption("--rule-examples") < 100:
            paths = random.Random(kind).sample(paths, 2)
        for path in paths:
            if await _mutate(story, kind, original, path):
                await _put(story, kind, original)
                assert await finished(story) == wanted, f"after a change of {path}"
                wanted = await outcome(story)


async def _mutate(
    story: Story, kind: str, original: dict[str, Any], path: tuple[str | int, ...]
) -> bool:
    """Change one leaf and wait until the change is observed. Returns False if the server refused all."""
    leaf: Any = original
    for key in path:
        leaf = leaf[key]
    for value in mutations(leaf):
        try:
            await _put(story, kind, replaced(original, path, value))
        except APIError:
            continue
        live = await story.harness.settled(mapping_of(kind), NAME, namespace=NAMESPACE)
        generation = live.get("metadata", {}).get("generation")
        assert (live.get("status") or {}).get("observedGeneration") == generation, (path, value)
        await asyncio.sleep(0.5)
        return True
    return False


async def _put(story: Story, kind: str, spec: dict[str, Any]) -> None:
    """Replace the spec of the story's object."""
    gvk = mapping_of(kind).gvk
    while True:
        live = await story.harness.client.get(gvk, NAME, namespace=NAMESPACE)
        try:
            await story.harness.client.update({**live, "spec": spec})
        except Conflict:
            continue
        return
