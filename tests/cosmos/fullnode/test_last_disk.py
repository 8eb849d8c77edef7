"""The last disk of a set, the only copy of its chain's data: it never goes without an approval, whatever the budget."""

from __future__ import annotations

from typing import Any

import pytest

from apis.cosmos import CosmosFullNode
from internal.cosmos.fullnode.disk_removals import leaves_no_copy
from tests.cosmos.builders.samples import node_set
from tests.cosmos.fullnode.harness import NAME, Place
from tests.cosmos.fullnode.test_disk_removals import is_older_than_now
from tests.cosmos.fullnode.test_removals import (
    approve,
    claims,
    digest,
    disks,
    held,
    only,
    server_place,
    without,
)
from tests.resources.ordinal_factories import claim, existing

__all__ = ["server_place"]
pytestmark = pytest.mark.criterion("G-N1")

LARGE = {"maxWithState": 10, "maxPercent": 100}
CHANGES: dict[str, tuple[dict[str, Any], dict[str, Any], int]] = {
    "to zero": ({"volumeRetentionPolicy": "Delete"}, {"replicas": 0}, 0),
    "to zero in two steps": ({"replicas": 2}, {"replicas": 0}, 0),
    "disabled": ({}, {"instanceOverrides": {"hub-0": {"disable": "All"}}}, 0),
    "renumbered": ({}, {"ordinals": {"start": 1}}, 0),
    "renumbered down": ({"ordinals": {"start": 1}}, {"ordinals": {"start": 0}}, 1),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_the_last_disk_waits_whatever_takes_its_node(
    server_place: Place, change: str
) -> None:
    first, then, number = CHANGES[change]
    place = server_place
    await place.apply(place.node_set(**{"replicas": 1, "deletions": LARGE, **first}))
    await place.settled()
    if change == "to zero in two steps":
        await place.edit(replicas=1, volumeRetentionPolicy="Delete")
        await without(place, "pvc-hub-1")
    before = await claims(place)
    await is_older_than_now(place, *before)
    await place.edit(**then)
    found = await held(place, *disks([number]))
    await place.harness.idle()
    assert before.items() <= (await claims(place)).items()
    await approve(place, digest(found))
    await without(place, *disks([number]))


async def test_a_renumbered_set_of_one_makes_the_new_node_first(server_place: Place) -> None:
    place = server_place
    await place.apply(place.node_set(replicas=1, strategy={"maxUnavailable": "100%"}))
    await place.settled()
    before, old = await claims(place), await place.uids()
    place.node(5).catching_up = True
    await place.edit(ordinals={"start": 5})
    await place.until(lambda found: found.status.sync.keys() >= {"hub-5"})
    await place.polled()
    assert old.items() <= (await place.uids()).items(), (
        "the old node goes on while the new one fills"
    )
    place.node(5).catching_up = False
    await only(place, [5])
    await held(place, "pvc-hub-0")
    assert before.items() <= (await claims(place)).items()
    await place.edit(ordinals={"start": 0})
    await only(place, [0])
    assert before.items() <= (await claims(place)).items(), "put back, nothing was lost"


async def test_a_deleted_set_of_one_keeps_its_disk_until(server_place: Place) -> None:
    place = server_place
    await place.apply(place.node_set(replicas=1, deletions=LARGE))
    await place.settled()
    before, running = await claims(place), await place.uids()
    await place.client.delete(CosmosFullNode, NAME, namespace=place.namespace)
    found = await held(place, "pvc-hub-0")
    await place.harness.idle()
    assert (await claims(place), await place.uids()) == (before, running)
    await approve(place, digest(found))
    await place.gone()
    await without(place, "pvc-hub-0")


OLD, NEW = "2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z"
OTHERS: dict[str, tuple[bool, dict[str, Any]]] = {
    "as old": (False, {"creationTimestamp": OLD}),
    "newer, in sync": (False, {"status": {"sync": {"test-1": {"inSync": True}}}}),
    "newer, not in sync": (True, {"status": {"sync": {"test-1": {"inSync": False}}}}),
    "newer, never seen": (True, {}),
    "lost": (True, {"creationTimestamp": OLD, "phase": "Lost"}),
    "not bound yet": (True, {"creationTimestamp": OLD, "phase": "Pending"}),
    "being deleted": (True, {"creationTimestamp": OLD, "deletionTimestamp": NEW}),
    "no longer wanted": (True, {"creationTimestamp": OLD, "replicas": 1}),
    "disabled too": (
        True,
        {"creationTimestamp": OLD, "instanceOverrides": {"test-1": {"disable": "All"}}},
    ),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_disk_is_the_last_unless_another_is_known_to_have_the_data(other: str) -> None:
    last, given = OTHERS[other]
    more = {"creationTimestamp": NEW, **given}
    spec = {name: more.pop(name) for name in ("replicas", "instanceOverrides") if name in more}
    status, phase = more.pop("status", {}), more.pop("phase", "Bound")
    going = existing(claim(0), creationTimestamp=OLD, status={"phase": "Bound"})
    stays = existing(claim(1), status={"phase": phase}, **more)
    found = leaves_no_copy(node_set(status=status, **spec), [going, stays], {going.uid})
    assert found is last
