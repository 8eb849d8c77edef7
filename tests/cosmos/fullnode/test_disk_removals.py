"""Disks that are to go, whatever takes them: no more than one without an approval."""

from __future__ import annotations

from typing import Any

import pytest

from apis.cosmos import CosmosFullNode
from ctrlruntime.client.client import PatchType
from tests.cosmos.fullnode.harness import CLAIM, NAME, POD, SECRET, NodeSetHarness, Place, pods
from tests.cosmos.fullnode.test_removals import (
    approve,
    claims,
    digest,
    disks,
    held,
    message,
    only,
    without,
)
from tests.support.waiting import eventually

pytestmark = [pytest.mark.criterion("G-N1"), pytest.mark.asyncio(loop_scope="module")]


async def test_nodes_that_are_taken_away_count_as_unavailable(
    harness: NodeSetHarness, place: Place
) -> None:
    await place.apply(
        place.node_set(volumeRetentionPolicy="Retain", peers={"rollout": "OnRestart"})
    )
    await place.settled()
    place.node(0).unreachable = True
    await place.until(lambda found: found.status.ready_replicas == 2)
    await place.edit(replicas=2)
    await place.until(lambda found: "no longer wanted stay" in found.status.status)
    await place.polled()
    assert await place.names(POD) == pods(range(3))
    place.node(0).unreachable = False
    await only(place, range(2))


async def test_one_disk_goes_within_an_hour_and_the_next_after_a_restart_waits(
    harness: NodeSetHarness, place: Place
) -> None:
    await place.apply(place.node_set())
    await place.settled()
    await place.edit(replicas=2)
    await without(place, "pvc-hub-2")
    found = await place.until(
        lambda each: each.status.removals is not None and len(each.status.removals.state) == 1
    )
    assert not message(found)
    await harness.stop_manager()
    await place.edit(replicas=1)
    await harness.start_manager()
    await held(place, "pvc-hub-1")
    await only(place, [0])
    assert sorted(await claims(place)) == disks(range(2))
    await place.edit(deletions={"maxWithState": 2, "maxPercent": 100})
    await without(place, "pvc-hub-1")


CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "scaled to zero": ({"volumeRetentionPolicy": "Delete"}, {"replicas": 0}, disks(range(3))),
    "disabled by name": (
        {},
        {"instanceOverrides": {each: {"disable": "All"} for each in pods((0, 2))}},
        disks((0, 2)),
    ),
    "renumbered by one": ({}, {"ordinals": {"start": 1}}, disks([0])),
    "renumbered down": ({"ordinals": {"start": 7}}, {"ordinals": {"start": 0}}, disks((7, 8, 9))),
    "renumbered and fewer": (
        {},
        {"ordinals": {"start": 2}, "replicas": 1},
        disks(range(2)),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_disks_wait_whatever_takes_them(
    harness: NodeSetHarness, place: Place, change: str
) -> None:
    first, then, names = CHANGES[change]
    await place.apply(place.node_set(**first))
    await place.settled()
    before = await claims(place)
    await place.edit(**then)
    found = await held(place, *names)
    await harness.idle()
    assert before.items() <= (await claims(place)).items()
    await approve(place, digest(found))
    await without(place, *names)
    await place.until(lambda each: not message(each))
    assert sorted(set(before) - set(await claims(place))) == sorted(names)


async def is_older_than_now(place: Place, name: str) -> None:
    """Wait until what is made now is younger than a claim: times of creation are whole seconds."""
    metadata = {"generateName": "now-", "namespace": place.namespace}
    probe: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}

    async def now() -> str:
        created_now: dict[str, Any] = await place.client.create(probe)
        return str(created_now["metadata"]["creationTimestamp"])

    made = await place.client.get(CLAIM, name, namespace=place.namespace)
    created = made["metadata"]["creationTimestamp"]
    await eventually(now, lambda at: at > created)


async def test_a_number_that_takes_the_place_of_the_highest_keeps_its_disk(
    harness: NodeSetHarness, place: Place
) -> None:
    """From numbers 1 and 2 to 0 and 1: the one that is beyond looks like that of a set with fewer replicas."""
    await place.apply(place.node_set(replicas=2, ordinals={"start": 1}))
    await place.settled()
    await is_older_than_now(place, "pvc-hub-2")
    await place.edit(ordinals={"start": 0})
    await only(place, range(2))
    await held(place, "pvc-hub-2")
    assert sorted(await claims(place)) == disks(range(3))


async def test_old_disks_wait_when_the_policy_no_longer_retains_them(
    harness: NodeSetHarness, place: Place
) -> None:
    await place.apply(place.node_set(volumeRetentionPolicy="Retain"))
    await place.settled()
    before = await claims(place)
    await place.edit(replicas=1)
    await only(place, [0])
    assert not message(await place.settled()), "what is retained waits for nothing"
    await place.edit(volumeRetentionPolicy="Delete")
    await held(place, *disks((1, 2)))
    assert await claims(place) == before
    await place.edit(volumeRetentionPolicy="Retain")
    await place.until(lambda found: not message(found))
    assert await claims(place) == before


async def test_a_deleted_set_of_one_disk_waits_until_its_protection_is_lifted(
    harness: NodeSetHarness, place: Place
) -> None:
    await place.apply(place.node_set(replicas=1, deletionProtection=True))
    await place.settled()
    await place.client.delete(CosmosFullNode, NAME, namespace=place.namespace)
    await held(place, "pvc-hub-0")
    for given in (None, False):
        await harness.idle()
        assert sorted(await claims(place)) == disks([0])
        await place.client.patch(
            CosmosFullNode,
            NAME,
            {"spec": {"deletionProtection": given}},
            namespace=place.namespace,
            type=PatchType.MERGE,
        )
    await place.gone()


async def test_a_deleted_set_that_retains_leaves_disks_and_keys_to_one_of_its_name(
    harness: NodeSetHarness, place: Place
) -> None:
    await place.apply(place.node_set())
    await place.settled()
    before = await claims(place)
    keys = [name for name in await place.names(SECRET) if name.endswith("-node-key")]
    await place.client.delete(CosmosFullNode, NAME, namespace=place.namespace)
    await held(place, *before)
    await place.edit(volumeRetentionPolicy="Retain")
    await place.gone()
    for name in pods(range(3)):
        await place.until_object(POD, name, lambda found: found is None)
    assert await claims(place) == before
    assert set(keys) <= set(await place.names(SECRET))
    await place.apply(place.node_set(volumeRetentionPolicy="Retain"))
    await place.settled()
    assert await claims(place) == before
