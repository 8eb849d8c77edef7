"""A set of nodes that is paused keeps all that it has, also when it is deleted."""

from __future__ import annotations

import pytest

from apis.cosmos import CosmosFullNode
from ctrlruntime.api.conditions import is_condition_true
from ctrlruntime.controller.annotations import PAUSED
from internal.removal_holds import HELD
from tests.cosmos.fullnode.harness import CLAIM, NAME, POD, Place

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.criterion("L-5")]


async def annotate(place: Place, value: str | None) -> None:
    patch = {"metadata": {"annotations": {PAUSED: value}}}
    await place.client.patch(CosmosFullNode, NAME, patch, namespace=place.namespace)


async def test_a_paused_set_that_is_deleted_keeps_its_disks_until_it_is_resumed(
    place: Place,
) -> None:
    await place.apply(place.node_set(replicas=2))
    await place.settled()
    disks, nodes = await place.names(CLAIM), await place.names(POD)
    await annotate(place, "true")
    await place.until(lambda found: is_condition_true(found.status.conditions, "Paused"))
    await place.client.delete(CosmosFullNode, NAME, namespace=place.namespace)
    found = await place.until(lambda found: found.metadata.deletion_timestamp is not None)
    since = place.harness.mark()
    await place.harness.idle()
    assert len(disks) == 2
    assert (await place.names(CLAIM), await place.names(POD)) == (disks, nodes)
    assert place.deletions(since, "persistentvolumeclaims") == []
    assert found.metadata.finalizers
    await annotate(place, None)
    await place.until(lambda found: is_condition_true(found.status.conditions, HELD))
    assert await place.names(CLAIM) == disks  # its protection holds them from then on
