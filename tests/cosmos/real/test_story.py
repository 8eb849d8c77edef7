"""Twelve nodes on the real kube-apiserver: scaled, upgraded by height, changed, grown, one drifting, one stuck, while
a snapshot is made each minute. Never more than `maxUnavailable` are down, no claim is lost, one node is paused at most."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ctrlruntime.json import Json
from tests.backends import SharedServer
from tests.cosmos.fullnode.harness import CLAIM, NAME, POD, Place, pods
from tests.cosmos.real.availability_recorder import Watchman
from tests.cosmos.real.harness import SCHEDULE, STORAGE, RealNodesHarness, Snapshots
from tests.support.waiting import eventually

BUDGET = 3
BOUNDARY = 1000
ROUND = 400
"""Seconds within which twelve nodes are replaced, three at a time, on a busy machine."""


@asynccontextmanager
async def minutes(snapshots: Snapshots) -> AsyncIterator[list[str]]:
    """Minutes go by, each with its snapshot, while something else happens. What was made is told at the end."""
    stop, made = asyncio.Event(), list[str]()
    async with asyncio.TaskGroup() as group:
        rounds = group.create_task(snapshots.rounds(stop))
        yield made
        stop.set()
        made += await rounds


@pytest.mark.slow
@pytest.mark.criterion("cosmos-story")
async def test_twelve_nodes_are_kept_up_whatever_is_done_to_them(
    real_server: SharedServer, tmp_path: Path
) -> None:
    async with RealNodesHarness.on(real_server, tmp_path) as harness:
        place = await harness.place()
        await place.apply(first(place))
        await place.settled()
        async with Watchman.watching(
            place.client, place.namespace, NAME, pods(range(9))
        ) as watchman:
            await live(harness, place, watchman)
            assert watchman.most_down <= BUDGET, watchman.downs
            assert watchman.most_paused == 1


def first(place: Place) -> dict[str, Any]:
    return place.node_set(
        replicas=9,
        strategy={"maxUnavailable": BUDGET},
        deletions={"maxWithState": 2},
        volumeClaimTemplate={"storageClassName": STORAGE},
        selfHeal={"heightDriftMitigation": {"threshold": 50, "cooldownSeconds": 0}},
    )


async def live(harness: RealNodesHarness, place: Place, watchman: Watchman) -> None:
    snapshots = Snapshots(place, harness.clock)
    await snapshots.schedule(NAME)
    made: list[str] = []

    async with minutes(snapshots) as rounds:  # more of them
        watchman.expect(pods(range(12)))
        await place.edit(replicas=12)
        await place.settled()
    made += rounds
    claims = await uids_of_claims(place)
    assert sorted(claims) == sorted(f"pvc-{name}" for name in pods(range(12)))

    async with minutes(snapshots) as rounds:  # another version, from a height on
        versions = [{"height": 0, "image": "gaia:v1"}, {"height": BOUNDARY, "image": "gaia:v2"}]
        await place.edit(chain={"versions": versions})
        await place.settled()
        assert set((await images(place)).values()) == {"gaia:v1"}
        harness.comet.advance(BOUNDARY)
        await until_images(place, {"gaia:v2"})
        await place.settled()
    made += rounds

    async with minutes(snapshots) as rounds:  # another configuration
        before = await place.uids()
        await place.edit(chain={"config": {"maxInboundPeers": 77}})
        await until_replaced(place, before)
        await place.settled()
    made += rounds

    async with minutes(snapshots) as rounds:  # larger disks
        await place.edit(volumeClaimTemplate={"resources": {"requests": {"storage": "2Gi"}}})
        for name in claims:
            await place.until_object(CLAIM, name, lambda claim: capacity(claim) == "2Gi")
        await place.settled()
    made += rounds

    async with minutes(snapshots) as rounds:  # one falls behind, and is restarted
        old = (await place.uids())[f"{NAME}-5"]
        place.node(5).behind = 100
        await place.until_object(
            POD, f"{NAME}-5", lambda pod: pod is None or pod["metadata"]["uid"] != old
        )
        place.node(5).behind = 0
        await place.settled()
    made += rounds

    await stuck(place, watchman)

    async with minutes(snapshots) as rounds:  # fewer of them
        watchman.expect(pods(range(10)))
        await place.edit(replicas=10)
        await place.settled()
        await place.until_object(CLAIM, f"pvc-{NAME}-11", lambda claim: claim is None)
    made += rounds
    await prove(place, snapshots, claims, made)


async def stuck(place: Place, watchman: Watchman) -> None:
    """One Pod does not start: the others are changed nevertheless, within what is left of the budget."""
    name = f"{NAME}-7"
    await place.edit(instanceOverrides={name: {"image": "gaia:does-not-exist"}})
    await place.until_object(POD, name, lambda pod: pod and image(pod) == "gaia:does-not-exist")
    others = {key: uid for key, uid in (await place.uids()).items() if key != name}
    await place.edit(chain={"config": {"maxInboundPeers": 78}})
    await until_replaced(place, others)
    await place.edit(instanceOverrides={name: {"image": "gaia:v3"}})
    await place.until_object(POD, name, lambda pod: pod and image(pod) == "gaia:v3")
    await place.settled()
    assert name in watchman.up


async def prove(
    place: Place, snapshots: Snapshots, claims: dict[str, str], made: list[str]
) -> None:
    now = await uids_of_claims(place)
    assert now == {key: claims[key] for key in (f"pvc-{name}" for name in pods(range(10)))}
    assert len(made) == len(set(made)) >= 6, "one for each minute"
    assert all(name.startswith(f"{SCHEDULE}-") for name in made)
    await snapshots.waiting()
    kept = await snapshots.kept()
    assert set(kept) <= set(made)
    assert made[-1] in kept
    assert len(kept) <= 4, "old ones go"


# -- what is looked at ----------------------------------------------------------------------------


def image(pod: dict[str, Any]) -> str:
    return next(str(c["image"]) for c in pod["spec"]["containers"] if c["name"] == "node")


def capacity(claim: Json) -> str:
    return str(((claim or {}).get("status") or {}).get("capacity", {}).get("storage", ""))


async def images(place: Place) -> dict[str, str]:
    found = await place.client.list(POD, place.namespace)
    return {pod["metadata"]["name"]: image(pod) for pod in found}


async def until_images(place: Place, wanted: set[str]) -> None:
    async def are_there() -> bool:
        return set((await images(place)).values()) == wanted

    await eventually(are_there, timeout=ROUND)


async def until_replaced(place: Place, before: dict[str, str]) -> None:
    async def are_gone() -> bool:
        return not set(before.values()) & set((await place.uids()).values())

    await eventually(are_gone, timeout=ROUND)


async def uids_of_claims(place: Place) -> dict[str, str]:
    found = await place.client.list(CLAIM, place.namespace)
    return {claim["metadata"]["name"]: claim["metadata"]["uid"] for claim in found}
