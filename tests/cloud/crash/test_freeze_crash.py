"""The manager, a real process, is killed at every write during a ChangeFreeze: no run that the freeze holds begins."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from apis.cloud import Instance
from apis.operations import ChangeFreeze
from tests.cloud.crash.test_crash import NAME, NAMESPACE, Scene, begun, manifest
from tests.support.freezes import frozen

pytestmark = pytest.mark.xdist_group("crashes of cloud")


@contextlib.asynccontextmanager
async def ready(folder: Path) -> AsyncIterator[Scene]:
    """Start a scene with ChangeFreezes and an instance that is ready."""
    async with Scene.start(folder) as scene:
        await scene.environment.install_crds(ChangeFreeze)
        await scene.client.apply(manifest(), field_manager="people", force=True)
        await scene.crashes.calm(scene.ready)
        yield scene


async def frozen_there(scene: Scene) -> bool:
    found = await scene.instance()
    return (
        found is not None
        and found.status.observed_generation == found.metadata.generation
        and found.status.waiting is not None
        and found.status.waiting.reason == "Frozen"
    )


async def deletion_held(scene: Scene) -> bool:
    found = await scene.instance()
    return found is not None and "ChangeFreeze" in found.status.message


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.criterion("RO-FREEZE")
@pytest.mark.parametrize("first", ["before", "after"])
async def test_a_manager_killed_at_every_write_of_a_freeze_begins_no_run(
    tmp_path: Path, first: str
) -> None:
    async with ready(tmp_path) as scene, contextlib.AsyncExitStack() as stack:
        client, crashes, before = scene.client, scene.crashes, begun(scene)
        await stack.enter_async_context(frozen(client, systems=["Cloud"]))
        # Another version and another machine type: an upgrade and a run of terraform, which wait.
        changed = manifest("5.2.0", "n2-standard-16")
        await client.apply(changed, field_manager="people", force=True)
        await crashes.crash_until(lambda: frozen_there(scene), first=first)
        assert begun(scene) == before
        during = crashes.kills
        assert during >= 2
        await stack.aclose()
        await crashes.crash_until(scene.ready, first=first)
        assert crashes.kills > during
        runs = begun(scene)
        assert set(runs.values()) == {1}
        new = sorted(task for task, *_ in runs - before)
        assert "upgrade" in new
        assert "terraform" in new


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.criterion("RO-FREEZE")
@pytest.mark.parametrize("first", ["before", "after"])
async def test_a_manager_killed_at_every_write_of_a_freeze_tears_nothing_down(
    tmp_path: Path, first: str
) -> None:
    async with ready(tmp_path) as scene, contextlib.AsyncExitStack() as stack:
        client, crashes, before = scene.client, scene.crashes, begun(scene)
        await stack.enter_async_context(frozen(client))
        await client.delete(Instance, NAME, namespace=NAMESPACE)
        await crashes.crash_until(lambda: deletion_held(scene), first=first)
        assert begun(scene) == before
        assert await scene.instance() is not None
        await stack.aclose()
        await crashes.crash_until(scene.gone, first=first)
        runs = begun(scene)
        assert set(runs.values()) == {1}
        assert {task for task, operation, *_ in runs if operation == "Teardown"} == {
            "terraform",
            "kubernetes",
            "invariants",
        }
