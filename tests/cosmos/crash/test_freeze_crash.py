"""The manager, a real process, is killed at every write during a ChangeFreeze: what the freeze holds is never changed."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path

import pytest

from apis.operations import ChangeFreeze
from tests.cosmos.crash.test_crash import Holds, Scene, image, node_set
from tests.cosmos.fullnode.harness import CLAIM, NAME, POD, laid_over
from tests.support.freezes import frozen

pytestmark = pytest.mark.xdist_group("crashes of cosmos")


def deleted_pods(scene: Scene) -> Counter[str]:
    """How often the manager deleted each Pod."""
    return Counter(
        entry.name
        for entry in scene.environment.proxy.log.entries()
        if (entry.user, entry.verb, entry.resource) == ("manager", "delete", "pods")
        and entry.code < 300
    )


async def images(scene: Scene) -> dict[str, str]:
    found = await scene.place.client.list(POD, scene.place.namespace)
    return {pod["metadata"]["name"]: image(pod) for pod in found}


async def disks_of(scene: Scene) -> dict[str, str]:
    found = await scene.place.client.list(CLAIM, scene.place.namespace)
    return {claim["metadata"]["name"]: claim["metadata"]["uid"] for claim in found}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.criterion("RO-FREEZE")
@pytest.mark.parametrize("first", ["before", "after"])
async def test_a_manager_killed_at_every_write_of_a_freeze_changes_no_node_that_works(
    tmp_path: Path, first: str
) -> None:
    async with Scene.start(tmp_path) as scene, contextlib.AsyncExitStack() as stack:
        place, crashes = scene.place, scene.crashes
        await scene.environment.install_crds(ChangeFreeze)
        await place.apply(laid_over(node_set(scene), {"spec": {"replicas": 3}}))
        await crashes.calm(scene.complete)
        before, disks = await place.uids(), await disks_of(scene)
        freeze = await stack.enter_async_context(frozen(place.client, systems=["Cosmos"]))

        def held(changes: int) -> Holds:
            async def holds() -> bool:
                found = await place.get()
                return (
                    found is not None
                    and found.status.observed_generation == found.metadata.generation
                    and found.status.waiting is not None
                    and freeze in found.status.waiting.message
                    and found.status.waiting.changes == changes
                    and len(await place.uids()) == 3
                )

            return holds

        # Two nodes fewer, and another image for all three: no Pod may go, and each counts once.
        await place.edit(replicas=1, podTemplate={"image": "gaia:v2"})
        await crashes.crash_until(held(3), first=first)
        assert await place.uids() == before
        # A lost Pod comes back, and is the only one that is made.
        await place.client.delete(POD, f"{NAME}-0", namespace=place.namespace)
        await crashes.crash_until(held(2), first=first)
        assert await images(scene) == {"hub-0": "gaia:v2", "hub-1": "gaia:v1", "hub-2": "gaia:v1"}
        kept = {name: uid for name, uid in (await place.uids()).items() if name != f"{NAME}-0"}
        assert kept.items() <= before.items()
        assert deleted_pods(scene) == {}
        assert await disks_of(scene) == disks
        during = crashes.kills
        assert during >= 2
        # Afterwards all of it is done once, by managers that die as often.
        await stack.aclose()
        await crashes.crash_until(scene.complete, first=first)
        assert crashes.kills > during
        assert await images(scene) == {"hub-0": "gaia:v2"}
        assert deleted_pods(scene) == {"hub-0": 1, "hub-1": 1, "hub-2": 1}, "hub-0 has fewer peers"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.criterion("RO-COSMOS")
@pytest.mark.parametrize("first", ["before", "after"])
async def test_a_manager_killed_at_every_write_keeps_to_the_halt_and_ends_it_once(
    tmp_path: Path, first: str
) -> None:
    async with Scene.start(tmp_path) as scene:
        place, crashes = scene.place, scene.crashes
        strategy = {"maxUnavailable": 2, "haltOnFailures": 2}
        spec = {"replicas": 4, "strategy": strategy}
        await place.apply(laid_over(node_set(scene), {"spec": spec}))
        await crashes.calm(scene.complete)
        before = await place.uids()

        async def halted() -> bool:
            found = await place.get()
            return found is not None and bool(found.status.rollout.halted)

        await place.edit(podTemplate={"image": "gaia:does-not-exist"})
        await crashes.crash_until(halted, first=first)
        after = await place.uids()
        assert len(after) == 4
        assert len(set(after.values()) & set(before.values())) == 2
        assert set(deleted_pods(scene).values()) == {1}
        during = crashes.kills
        assert during > 2
        await place.edit(strategy={"maxUnavailable": 1}, podTemplate={"image": "gaia:v3"})
        await crashes.crash_until(scene.complete, first=first)
        assert crashes.kills > during
        assert sum(deleted_pods(scene).values()) == 2 + 4
        found = await place.get()
        assert found is not None
        assert (found.status.rollout.halted, found.status.rollout.fixes) == ("", [])
