"""Nodes and disks that are to go: within the budget of rollouts, and no more disks than one without an approval."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from apis.cosmos import CosmosFullNode
from apis.deletions import Removals
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.envtest.proxy import Fail, Match
from internal.removal_holds import HELD
from tests.cosmos.fullnode.harness import (
    CLAIM,
    CONFIG_MAP,
    NAME,
    POD,
    SERVICE,
    NodeSetHarness,
    Place,
    pods,
)
from tests.cosmos.fullnode.test_uninstall import on_real_server

pytestmark = pytest.mark.criterion("G-N1")

ALLOW_DELETE = "cosmos.ctrlruntime.dev/allow-delete"


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def server_place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """A namespace of its own, on the embedded server and on a real one."""
    if request.param == "embedded":
        started = NodeSetHarness.start(tmp_path)
    else:
        started = on_real_server(request.getfixturevalue("real_server"), tmp_path)
    async with started as harness:
        name = f"removals-{secrets.token_hex(4)}"
        await harness.client.create(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        )
        yield Place(harness, name)


def disks(numbers: Sequence[int], name: str = NAME) -> list[str]:
    return [f"pvc-{name}-{number}" for number in numbers]


async def claims(place: Place) -> dict[str, str]:
    """UIDs of the claims that are not being deleted, by name."""
    found = await place.client.list(CLAIM, place.namespace)
    return {
        item["metadata"]["name"]: item["metadata"]["uid"]
        for item in found
        if "deletionTimestamp" not in item["metadata"]
    }


def message(found: CosmosFullNode) -> str:
    """What is held; empty if nothing is."""
    condition = find_condition(found.status.conditions, HELD)
    return "" if condition is None or condition.status != "True" else condition.message


def digest(found: CosmosFullNode) -> str:
    return message(found).partition("(digest ")[2][:16]


def recorded(found: CosmosFullNode) -> Removals:
    return found.status.removals or Removals()


async def held(place: Place, *names: str) -> CosmosFullNode:
    """The set, once exactly these claims are held."""
    return await place.until(
        lambda found: (
            [name for name in disks(range(20)) if f"/{name} (" in message(found)] == list(names)
        )
    )


async def approve(place: Place, text: str) -> None:
    patch = {"metadata": {"annotations": {ALLOW_DELETE: text}}}
    await place.client.patch(CosmosFullNode, NAME, patch, namespace=place.namespace)


async def without(place: Place, *names: str) -> None:
    """Wait until these claims are gone."""
    for name in names:
        await place.until_object(CLAIM, name, lambda found: found is None)


async def only(place: Place, numbers: Sequence[int]) -> None:
    """Wait until these nodes run, and no others."""
    await place.until(lambda found: found.status.replicas == len(pods(numbers)))
    await place.settled()
    assert await place.names(POD) == sorted(pods(numbers))


async def fewer(place: Place) -> dict[str, Any]:
    """Wait until a set of four has become one of three, without the disk of the fourth. The set as it was before."""
    await place.apply(place.node_set(replicas=4))
    await place.settled()
    await place.harness.idle()
    before: dict[str, Any] | None = await place.object(CosmosFullNode.mapping(), NAME)
    await place.edit(replicas=3)
    await without(place, *disks([3]))
    await only(place, range(3))
    assert before is not None
    return before


async def test_renumbered_nodes_come_first_and_the_old_keep_their_disks(
    server_place: Place,
) -> None:
    place = server_place
    await place.apply(place.node_set())
    await place.settled()
    before, old = await claims(place), await place.uids()
    for number in (10, 11, 12):
        place.node(number).catching_up = True
    await place.edit(ordinals={"start": 10})
    for number in (10, 11, 12):
        await place.until_object(POD, f"hub-{number}", lambda found: found is not None)
    await place.until(lambda found: found.status.sync.keys() >= set(pods((10, 11, 12))))
    await place.polled()
    assert old.items() <= (await place.uids()).items(), "no old node goes while the new catch up"
    assert before.items() <= (await claims(place)).items()
    for kind, names in ((SERVICE, ["hub-p2p-0", "hub-p2p-2"]), (CONFIG_MAP, pods(range(3)))):
        assert set(names) <= set(await place.names(kind)), "what runs keeps what it needs"
    shown = message(await held(place, *disks(range(3))))
    assert "SpecChanged" in shown
    assert f"{ALLOW_DELETE}=" in shown

    for number in (10, 11):
        place.node(number).catching_up = False
    await place.polled()
    assert old.items() <= (await place.uids()).items(), (
        "one of the new ones is down: as many may be"
    )
    place.node(12).catching_up = False
    await only(place, (10, 11, 12))
    await place.until_object(SERVICE, "hub-p2p-0", lambda found: found is None)
    found = await held(place, *disks(range(3)))
    assert before.items() <= (await claims(place)).items()
    await place.until_event("DeletionsHeld")

    await approve(place, digest(found))
    await without(place, *before)
    done = await place.until(lambda each: not message(each))
    assert sorted(await claims(place)) == disks((10, 11, 12))
    assert done.status.removals is not None
    assert list(done.status.removals.used) == [digest(found)]


async def test_replicas_1_by_a_typo_takes_no_disk(server_place: Place) -> None:
    place = server_place
    await place.apply(place.node_set(replicas=4))
    await place.settled()
    before = await claims(place)
    mark = place.harness.mark()
    await place.edit(replicas=1)
    await only(place, [0])
    assert place.deletions(mark)[:3] == ["hub-3", "hub-2", "hub-1"]
    found = await held(place, *disks((1, 2, 3)))
    assert place.deletions(mark, "persistentvolumeclaims") == []
    await approve(place, "0123456789abcdef")
    await place.until(lambda each: "approves another set" in message(each))
    await approve(place, "3")
    await place.until(lambda each: "approves nothing" in message(each))
    assert await claims(place) == before

    await place.edit(replicas=4)
    await only(place, range(4))
    assert await claims(place) == before, "correcting the number loses nothing"
    await place.until(lambda each: not message(each))
    await approve(place, digest(found))
    await place.edit(replicas=2)
    await only(place, range(2))
    await held(place, *disks((2, 3)))
    assert await claims(place) == before, "what was approved is another set"


@pytest.mark.criterion("G-T3")
@pytest.mark.parametrize("manager", ["runs", "is down", "writes"])
async def test_g_t3_a_set_whose_status_was_wiped_gives_no_disk_without_an_approval(
    server_place: Place, manager: str
) -> None:
    """A disk went within the day, and the record of it with the status."""
    place = server_place
    await fewer(place)
    if manager == "is down":
        await place.harness.stop_manager()
    found = await place.object(CosmosFullNode.mapping(), NAME)
    assert found is not None
    wiped = {"status": dict.fromkeys(found["status"])}
    if (
        manager == "writes"
    ):  # its write follows the wipe, with the generation and what else it changes
        del wiped["status"]["observedGeneration"]
    await place.client.patch_status(CosmosFullNode, NAME, wiped, namespace=place.namespace)
    if manager == "is down":
        await place.harness.start_manager()
    await place.until(lambda each: each.status.removals_unknown_since is not None)
    await place.edit(replicas=2)
    shown = await held(place, *disks([2]))
    assert "is unknown, as the status was lost" in message(shown)
    await approve(place, digest(shown))
    await without(place, *disks([2]))


@pytest.mark.criterion("G-T3")
@pytest.mark.parametrize("older_is", ["recorded", "of the version before", "wiped first"])
async def test_g_t3_an_older_status_that_is_put_back_gives_no_disk_without_an_approval(
    server_place: Place, older_is: str
) -> None:
    """Of the same set, before the disk went that counts."""
    place = server_place
    older = await fewer(place)
    if older_is == "wiped first":
        wiped = {"status": dict.fromkeys(older["status"])}
        await place.client.patch_status(CosmosFullNode, NAME, wiped, namespace=place.namespace)
        await place.until(lambda each: each.status.removals_unknown_since is not None)
        await place.harness.idle()
    if older_is == "of the version before":
        older["status"]["removals"] = {}
    await place.harness.stop_manager()
    found = await place.object(CosmosFullNode.mapping(), NAME)
    assert found is not None
    await place.client.update({**found, "status": older["status"]}, subresource="status")
    await place.harness.start_manager()
    await place.edit(replicas=2)
    shown = await held(place, *disks([2]))
    assert "is unknown, as the status was lost" in message(shown)
    await approve(place, digest(shown))
    await without(place, *disks([2]))


@pytest.mark.parametrize("way", ["approved", "lifted"])
async def test_a_deleted_set_keeps_its_disks_until(server_place: Place, way: str) -> None:
    place = server_place
    await place.apply(place.node_set(volumeRetentionPolicy="Delete"))
    await place.settled()
    before, running = await claims(place), await place.uids()
    await place.client.delete(CosmosFullNode, NAME, namespace=place.namespace)
    found = await held(place, *before)
    assert "ParentDeleted" in message(found)
    assert "Being deleted, and held" in found.status.status
    await place.until_event("DeletionsHeld")
    await place.harness.idle()
    assert (await claims(place), await place.uids()) == (before, running)
    if way == "approved":
        await approve(place, digest(found))
    else:
        await place.edit(deletionProtection=False)
    await place.gone()
    await without(place, *before)


@pytest.mark.criterion("S-P2")
@pytest.mark.criterion("S-P3")
async def test_disks_that_need_a_second_person_stay_without_a_record(server_place: Place) -> None:
    place = server_place
    required = {"group": "approvers"}
    await place.apply(place.node_set(volumeRetentionPolicy="Delete", requireApprovalBy=required))
    await place.settled()
    await place.until(lambda found: found.status.approvals is not None)
    before = await claims(place)
    await place.client.delete(CosmosFullNode, NAME, namespace=place.namespace)
    await approve(place, digest(await held(place, *before)))
    await place.edit(deletionProtection=False, requireApprovalBy=None)

    def refused(found: CosmosFullNode) -> bool:
        condition = find_condition(found.status.conditions, "ApprovalsCount")
        text = "" if condition is None else condition.message
        return "run the manager with --webhooks" in text and "spec.deletionProtection" in text

    await place.until(refused)
    await place.harness.idle()
    assert await claims(place) == before


@pytest.mark.criterion("G-T3")
async def test_g_t3_a_set_of_a_version_without_records_scales_down_with_one_approval(
    server_place: Place,
) -> None:
    """No disk has gone, but the version before recorded nothing: an upgrade is as a lost record."""
    place = server_place
    await place.apply(place.node_set(replicas=4))
    await place.settled()
    await place.harness.stop_manager()
    before = {"status": {"removals": None}}
    await place.client.patch_status(CosmosFullNode, NAME, before, namespace=place.namespace)
    await place.harness.start_manager()
    await place.until(lambda each: each.status.removals_unknown_since is not None)
    await place.edit(replicas=3)
    await only(place, range(3))
    shown = await held(place, *disks([3]))
    assert "is unknown, as the status was lost" in message(shown)
    assert sorted(await claims(place)) == disks(range(4))
    await approve(place, digest(shown))
    await without(place, *disks([3]))


async def test_disks_that_are_wanted_again_need_another_approval(server_place: Place) -> None:
    """The approval was used and no disk went, as the server refused; the replicas came back, and went again within the hour."""
    place, proxy = server_place, server_place.harness.environment.proxy
    await place.apply(place.node_set(replicas=4))
    await place.settled()
    before = await claims(place)
    await place.edit(replicas=2)
    shown = digest(await held(place, *disks((2, 3))))
    deletes = Match(user="manager", verb="delete", resource="persistentvolumeclaims")
    refusal = proxy.add(Fail(500), deletes, times=None)
    await approve(place, shown)
    await place.until(lambda found: shown in recorded(found).used)
    await place.edit(replicas=4)
    await only(place, range(4))
    await place.until(lambda found: not recorded(found).approved)
    proxy.remove(refusal)
    await place.edit(replicas=2)
    await only(place, range(2))
    assert digest(await held(place, *disks((2, 3)))) != shown
    await place.harness.idle()
    assert await claims(place) == before
