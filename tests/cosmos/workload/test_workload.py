"""Numbered Pods over HTTP: made, brought up to date one after the other, and never too many taken down."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Unpack

import pytest

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.cache.cache import Cache
from ctrlruntime.client.call import Call, Execute
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import Invalid
from ctrlruntime.client.transport import Response
from ctrlruntime.envtest import Environment
from ctrlruntime.resources import REVISION, Control, Desired, Owner
from internal.cosmos.workload.workload import Progress, WorkloadControl
from tests.resources.ordinal_factories import MANAGER, OWNER, POD, DesiredSettings, pod

READY = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


@dataclass
class Harness:
    """A program that keeps a workload, and what it asks of the server."""

    admin: Client
    cache: Cache
    control: WorkloadControl
    owner: Owner
    asked: list[str] = field(default_factory=list)

    async def owned(self, name: str) -> Owner:
        metadata = {"name": name, "namespace": "default"}
        made: Manifest = await self.admin.create(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
        )
        return replace(OWNER, name=name, uid=made["metadata"]["uid"])

    async def run(self, desired: Iterable[Desired], **options: object) -> Progress:
        wanted = list(desired)
        given: dict[str, Any] = {"replicas": len(wanted), "max_unavailable": 1, **options}
        self.asked.clear()
        return await self.control.reconcile(
            wanted,
            self.cache.entries(POD, "default"),
            given.pop("owner", self.owner),
            **given,
        )

    async def ready(self, *numbers: int) -> None:
        """These Pods become ready, and the cache knows."""
        for number in numbers:
            name = f"set-{number}"
            await self.admin.patch_status(POD, name, {"status": READY}, namespace="default")
            await self.cache.refresh(POD, name, namespace="default")

    async def images(self) -> dict[str, str]:
        found: list[Manifest] = await self.admin.list(POD, "default")
        return {
            each["metadata"]["name"]: each["spec"]["containers"][0]["image"]
            for each in found
            if not each["metadata"].get("deletionTimestamp")
        }

    async def __call__(self, call: Call, execute: Execute) -> Response:
        self.asked.append(call.verb)
        return await execute(call)


@asynccontextmanager
async def staged(env: Environment) -> AsyncIterator[Harness]:
    async with Client.connect(env.config("manager")) as client:
        harness = Harness(env.client("admin"), Cache(client), None, OWNER)  # type: ignore[arg-type]
        harness.cache = Cache(client.intercepted(harness))
        harness.cache.declare(POD, track_manager=MANAGER)
        await harness.cache.start()
        await harness.cache.wait_synced(60.0)
        control = Control(harness.cache, field_manager=MANAGER)
        harness.control = WorkloadControl(control, harness.cache.client(), POD)
        harness.owner = await harness.owned("set")
        yield harness
        await harness.cache.stop()


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    async with Environment() as env, staged(env) as harness:
        yield harness


def pods(*numbers: int, image: str = "app:1", **settings: Unpack[DesiredSettings]) -> list[Desired]:
    return [pod(number, image, **settings) for number in numbers]


async def test_the_life_of_a_workload(harness: Harness) -> None:
    made = await harness.run(pods(0, 1, 2))
    assert (made.created, made.requeue, made.errors) == (["set-0", "set-1", "set-2"], True, [])
    await harness.ready(0, 1, 2)
    at_rest = await harness.run(pods(0, 1, 2))
    assert (at_rest, harness.asked) == (Progress(budget=1), [])

    new = pods(0, 1, 2, image="app:2")
    for number in range(3):
        first = await harness.run(new)
        assert (first.replaced, first.outdated) == ([f"set-{number}"], 3 - number)
        assert harness.asked == ["list", "delete"]
        made = await harness.run(new)
        assert (made.created, made.replaced) == ([f"set-{number}"], [])
        if number < 2:
            waiting = await harness.run(new)
            assert (waiting.replaced, harness.asked) == ([], [])
            assert f"set-{number}: the Pod is not ready" in waiting.blocked
            assert waiting.requeue
        await harness.ready(number)
    assert (await harness.run(new), harness.asked) == (Progress(budget=1), [])
    assert await harness.images() == {f"set-{number}": "app:2" for number in range(3)}

    gone = await harness.run(pods(0, image="app:2"))
    assert (gone.deleted, harness.asked) == (["set-2"], ["list", "delete"])
    gone = await harness.run(pods(0, image="app:2"))
    assert gone.deleted == ["set-1"]


async def test_a_pod_just_deleted_by_another_client_counts_as_down(harness: Harness) -> None:
    """The cache does not know of it yet; the server is asked before anything is taken down."""
    await harness.run(pods(0, 1, 2))
    await harness.ready(0, 1, 2)
    await harness.cache.stop()
    await harness.admin.delete(POD, "set-2", namespace="default")
    made = await harness.run(pods(0, 1, 2, image="app:2"))
    assert (made.replaced, made.budget) == ([], 0)
    assert harness.asked == ["list"]
    assert "some are missing" in made.blocked
    made = await harness.run(pods(0, 1, 2, image="app:2"), max_unavailable=2)
    assert made.replaced == ["set-0"]


async def test_what_fails_stops_nothing_else(harness: Harness) -> None:
    bad = pod(1)
    bad.manifest["spec"] = {"containers": [{"name": "Not a name", "image": "app:1"}]}
    made = await harness.run([pod(0), replace(bad, revision="bad"), pod(2)])
    assert made.created == ["set-0", "set-2"]
    assert [type(error) for error in made.errors] == [Invalid]
    assert made.requeue


async def test_pods_of_others_are_reported_and_left_alone(harness: Harness) -> None:
    other = await harness.owned("other")
    await harness.run(pods(0), owner=other)
    made = await harness.run(pods(0, 1, image="app:2"))
    assert [foreign.desired.name for foreign in made.conflicts] == ["set-0"]
    assert made.created == ["set-1"]
    assert await harness.images() == {"set-0": "app:1", "set-1": "app:2"}


async def test_what_was_changed_by_hand_is_fixed_in_place(harness: Harness) -> None:
    """Without a restart of the Pod, and once."""
    await harness.run(pods(0, 1))
    await harness.ready(0, 1)
    before = {entry.name: entry.uid for entry in harness.cache.entries(POD, "default")}
    grey = {"metadata": {"labels": {"app": "grey"}}}
    await harness.admin.patch(POD, "set-1", grey, namespace="default", field_manager="somebody")
    await harness.cache.refresh(POD, "set-1", namespace="default")
    made = await harness.run(pods(0, 1))
    assert (made.repaired, made.replaced, made.requeue) == (["set-1"], [], False)
    found = harness.cache.entries(POD, "default")
    assert {entry.name: entry.uid for entry in found} == before
    assert {entry.labels["app"] for entry in found} == {"set"}
    assert (await harness.run(pods(0, 1)), harness.asked) == (Progress(budget=1), [])


async def test_a_pause_takes_a_pod_away_and_gives_it_back(harness: Harness) -> None:
    await harness.run(pods(0, 1, 2))
    await harness.ready(0, 1)
    made = await harness.run(pods(0, 1), replicas=3, paused=["set-2"])
    assert made.deleted == ["set-2"], "it does not work: that costs nothing"
    await harness.run(pods(0, 1, 2))
    await harness.ready(2)
    made = await harness.run(pods(0, 2), replicas=3, paused=["set-1"])
    assert (made.deleted, harness.asked) == (["set-1"], ["list", "delete"])
    made = await harness.run(pods(0, 2, image="app:2"), replicas=3, paused=["set-1"])
    assert not made.replaced
    assert (await harness.run(pods(0, 1, 2))).created == ["set-1"]


@pytest.mark.criterion("COSMOS-A10-339")
async def test_disruptions_share_one_budget(harness: Harness) -> None:
    await harness.run(pods(0, 1, 2, 3))
    await harness.ready(0, 1, 2, 3)

    async def disrupt() -> list[str]:
        found = harness.cache.entries(POD, "default")
        return await harness.control.disrupt(
            found, found, harness.owner, replicas=4, max_unavailable=2
        )

    update = harness.run(pods(0, 1, 2, 3, image="app:2"), max_unavailable=2)
    first, second, made = await asyncio.gather(disrupt(), disrupt(), update)
    assert len(first) + len(second) + len(made.replaced) == 2
    assert len(await harness.images()) == 2
    assert await disrupt() == []


@pytest.mark.criterion("builder-change-held", "COSMOS-A2-3")
async def test_an_upgrade_of_the_program_rolls_no_pod(harness: Harness) -> None:
    """Not even where the custom resource comes back from a backup at the same time."""
    await harness.run(pods(0, 1, inputs="same", reference=False))
    await harness.ready(0, 1)
    new = pods(0, 1, image="app:2", inputs="same", reference=False)
    held = await harness.run(new)
    assert (held, harness.asked) == (Progress(budget=1, held=["set-0", "set-1"]), [])

    again = replace(harness.owner, uid="uid-after-the-restore")
    adopted = await harness.run(new, owner=again)
    assert (adopted.repaired, adopted.replaced) == (["set-0", "set-1"], [])
    held = await harness.run(new, owner=again)
    assert (held, harness.asked) == (Progress(budget=1, held=["set-0", "set-1"]), [])
    old = {item.revision for item in pods(0, 1)}
    found = harness.cache.entries(POD, "default")
    assert {entry.annotations[REVISION] for entry in found} == old
    assert set((await harness.images()).values()) == {"app:1"}

    opted_in = pods(
        0, 1, image="app:2", inputs="same", reference=False, roll_on_builder_change=True
    )
    assert (await harness.run(opted_in, owner=again)).replaced == ["set-0"]
