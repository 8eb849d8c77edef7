"""Claims of running nodes that are deleted by hand: the node is named and its Pod stays (G-N4)."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from apis.cosmos import CosmosFullNode
from ctrlruntime.api import Condition, find_condition
from tests.cosmos.fullnode.harness import CLAIM, EVENT, NAME, POD, NodeSetHarness, Place
from tests.cosmos.fullnode.test_removals import claims, held, message
from tests.cosmos.fullnode.test_uninstall import on_real_server

pytestmark = pytest.mark.criterion("G-N4")

LOST = "pvc-hub-1"
PROTECTION = "example.com/in-use"
"""As kubernetes.io/pvc-protection, for machines that are simulated."""


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """A set that works, in a namespace of its own."""
    if request.param == "embedded":
        started = NodeSetHarness.start(tmp_path)
    else:
        started = on_real_server(request.getfixturevalue("real_server"), tmp_path)
    async with started as harness:
        name = f"disks-{secrets.token_hex(4)}"
        manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        await harness.client.create(manifest)
        made = Place(harness, name)
        await made.apply(made.node_set())
        await made.settled()
        yield made


def condition(found: CosmosFullNode) -> Condition | None:
    return find_condition(found.status.conditions, "DisksBeingDeleted")


def has_gone_as_far_as_it_goes(found: CosmosFullNode) -> bool:
    """Whether a change has reached all nodes, or all but one that is blocked."""
    rollout = found.status.rollout
    if found.status.observed_generation != found.metadata.generation:
        return False
    return rollout.outdated == 0 or (rollout.outdated == 1 and bool(rollout.blocked))


async def protect(place: Place, *finalizers: str) -> None:
    patch = {"metadata": {"finalizers": list(finalizers)}}
    await place.client.patch(CLAIM, LOST, patch, namespace=place.namespace)


async def delete_claim(place: Place) -> CosmosFullNode:
    """`kubectl delete pvc`, of a claim that is kept as long as its Pod runs. The set, once the manager has seen it."""
    await protect(place, PROTECTION)
    await place.client.delete(CLAIM, LOST, namespace=place.namespace)
    await place.polled()
    return await place.until(lambda _found: True)


async def test_a_node_whose_claim_is_being_deleted_is_named_and_keeps_its_pod(
    place: Place,
) -> None:
    pods = await place.uids()
    claim = await place.client.get(CLAIM, LOST, namespace=place.namespace)
    found = await delete_claim(place)
    shown = condition(found)
    assert shown is not None
    assert (shown.status, shown.reason) == ("True", "ClaimTerminating")
    assert LOST in shown.message
    assert f"kubectl delete pod hub-1 -n {place.namespace}" in shown.message
    if volume := claim["spec"].get("volumeName"):
        assert f"kubectl patch pv {volume}" in shown.message
    assert LOST in found.status.status
    await place.until_event("DiskBeingDeleted")
    notes = [each.get("note", "") for each in await place.client.list(EVENT, place.namespace)]
    assert any(LOST in note for note in notes)

    await place.edit(podTemplate={"image": "gaia:v2"})
    await place.until(has_gone_as_far_as_it_goes)
    await place.polled()
    blocked = (await place.until(lambda _found: True)).status.rollout.blocked
    assert LOST in blocked
    now = await place.uids()
    assert now["hub-1"] == pods["hub-1"], "it has its disk as long as it has its Pod"
    assert now["hub-0"] != pods["hub-0"]
    assert now["hub-2"] != pods["hub-2"]
    kept = await place.client.get(CLAIM, LOST, namespace=place.namespace)
    assert kept["metadata"]["uid"] == claim["metadata"]["uid"]

    # What the message advises: the person lets the disk go.
    await place.client.delete(POD, "hub-1", namespace=place.namespace)
    await protect(place)
    found = await place.settled()
    assert condition(found) is None
    renewed = await place.client.get(CLAIM, LOST, namespace=place.namespace)
    assert renewed["metadata"]["uid"] != claim["metadata"]["uid"]


async def test_a_node_that_would_lose_its_disk_is_not_stopped_for_a_copy_or_made_anew(
    place: Place,
) -> None:
    pods = await place.uids()
    await delete_claim(place)
    await place.set_status(scheduledSnapshotStatus={"own.daily.v1": {"podCandidate": "hub-1"}})
    await place.polled()
    assert (await place.uids())["hub-1"] == pods["hub-1"]

    ended = {"phase": "Failed", "reason": "Evicted", "message": "The node was low on memory"}
    await place.client.patch_status(POD, "hub-1", {"status": ended}, namespace=place.namespace)
    await place.until_event("PodEnded")
    notes = [each.get("note", "") for each in await place.client.list(EVENT, place.namespace)]
    assert any(f"It stays: claim {LOST} is being deleted" in note for note in notes)
    assert (await place.uids())["hub-1"] == pods["hub-1"]


async def test_a_node_that_is_taken_away_keeps_its_pod_while_a_deleted_claim_is_used(
    place: Place,
) -> None:
    """Nor goes the disk of another node, or the set, which is to keep its disks."""
    pods = await place.uids()
    await delete_claim(place)
    await place.edit(replicas=2)
    found = await held(place, "pvc-hub-2")
    assert f"{LOST} of a node that stays is being deleted" in message(found)
    await place.edit(replicas=1, volumeRetentionPolicy="Retain")
    stays = f"no longer wanted stay: claim {LOST} is being deleted"
    await place.until(lambda found: stays in found.status.status and found.status.replicas == 2)
    assert await place.names(POD) == ["hub-0", "hub-1"]
    await place.client.delete(CosmosFullNode, NAME, namespace=place.namespace)
    await held(place, LOST)
    await place.harness.idle()
    assert (await place.uids())["hub-1"] == pods["hub-1"]
    await place.client.delete(POD, "hub-1", namespace=place.namespace)
    await protect(place)
    await place.gone()
    assert sorted(await claims(place)) == ["pvc-hub-0", "pvc-hub-2"]
