"""A ChangeFreeze holds changes of nodes that work: no Pod rolls, no node and no disk goes."""

from __future__ import annotations

import time

import pytest

from apis.cosmos import CosmosFullNode, CosmosFullNodeStatus
from apis.operations import ChangeFreeze
from apis.waiting import ChangesWaiting
from ctrlruntime.json import Json
from manager.controllers import change_freezes
from tests.cosmos.fullnode.harness import (
    CONFIG_MAP,
    NAME,
    POD,
    SERVICE,
    NodeSetHarness,
    Place,
    pods,
)
from tests.support.freezes import freeze_until, frozen, grant, requesting

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("sets of nodes"),
    pytest.mark.criterion("RO-FREEZE"),
]

SECONDS = 60.0
"""Within which changes go on once a freeze is over, on a machine that has much else to do."""


@pytest.fixture(autouse=True)
def counts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a freeze holds is counted without a pause for what may follow."""
    monkeypatch.setattr(change_freezes, "STATUS_PERIOD", 0.1)


async def settled(place: Place, **fields: Json) -> dict[str, str]:
    """A set whose nodes have caught up; the UIDs of its Pods."""
    await place.harness.environment.install_crds(ChangeFreeze)
    assert place.harness.manager is not None
    place.harness.manager.cache.notify_discovery_changed()  # it would look for the kind in a while
    await place.apply(place.node_set(**fields))
    await place.settled()
    return await place.uids()


async def waits(place: Place, changes: int) -> tuple[ChangesWaiting, CosmosFullNodeStatus]:
    found = await place.until(
        lambda each: each.status.waiting is not None and each.status.waiting.changes == changes
    )
    assert found.status.waiting is not None
    return found.status.waiting, found.status


async def test_a_changed_image_rolls_no_pod_and_a_lost_pod_comes_back(
    harness: NodeSetHarness, place: Place
) -> None:
    before = await settled(place)
    async with frozen(harness.client, reason="Audit", systems=["Cosmos"]) as freeze:
        await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
        await place.edit(podTemplate={"image": "gaia:v2"})
        waiting, status = await waits(place, 3)
        assert (waiting.reason, waiting.until) == ("Frozen", None)
        assert freeze in waiting.message
        assert "Audit" in waiting.message
        assert "Audit" in status.status
        assert status.rollout.outdated == 3
        await freeze_until(harness.client, freeze, lambda each: each.status.held.cosmos == 3)
        mark = harness.mark()
        await harness.stop_manager()
        await harness.start_manager()
        await harness.client.delete(POD, f"{NAME}-0", namespace=place.namespace)
        await place.until_object(
            POD,
            f"{NAME}-0",
            lambda pod: pod is not None and pod["metadata"]["uid"] != before[f"{NAME}-0"],
        )
        await waits(place, 2)
        after = await place.uids()
        assert place.deletions(mark) == []
        assert {name: after[name] for name in pods([1, 2])} == {
            name: before[name] for name in pods([1, 2])
        }
        began = time.monotonic()
    await place.until(lambda each: each.status.waiting is None)
    assert time.monotonic() - began < SECONDS
    await place.settled()
    assert not set((await place.uids()).values()) & set(before.values())


@pytest.mark.criterion("S-F12")
async def test_pods_roll_once_the_freeze_exempts_the_set_and_not_by_its_annotation(
    harness: NodeSetHarness, place: Place
) -> None:
    await settled(place)
    async with frozen(harness.client) as freeze:
        await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
        patch = requesting(freeze)
        await harness.client.patch(CosmosFullNode, NAME, patch, namespace=place.namespace)
        await place.edit(podTemplate={"image": "gaia:v2"})
        waiting, _ = await waits(place, 3)
        assert (
            f"freeze exempt {freeze} CosmosFullNode/{NAME} -n {place.namespace}" in waiting.message
        )
        await grant(harness.client, freeze, "CosmosFullNode", place.namespace, NAME)
        await place.until(lambda each: each.status.waiting is None)


async def test_no_node_and_nothing_that_belongs_to_it_goes_in_a_freeze(
    harness: NodeSetHarness, place: Place
) -> None:
    await settled(place)
    kinds = (POD, SERVICE, CONFIG_MAP)
    before = [await place.names(kind) for kind in kinds]
    async with frozen(harness.client, namespaces=[place.namespace]) as freeze:
        await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
        mark = harness.mark()
        await place.edit(replicas=1)
        await waits(place, 2)
        assert [await place.names(kind) for kind in kinds] == before
        await place.edit(replicas=4)
        await place.until(lambda each: each.status.ready_replicas == 4)
        await place.edit(replicas=1)
        await waits(place, 3)
        assert {item.resource for item in place.writes(mark) if item.verb == "delete"} == set()
    await place.settled()
    assert await place.names(POD) == [f"{NAME}-0"]


async def test_a_set_that_is_scaled_down_and_re_imaged_counts_each_pod_once(
    harness: NodeSetHarness, place: Place
) -> None:
    await settled(place)
    async with frozen(harness.client) as freeze:
        await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
        await place.edit(replicas=1, podTemplate={"image": "gaia:v2"})
        await waits(place, 3)
        await freeze_until(harness.client, freeze, lambda each: each.status.held.cosmos == 3)
    await place.settled()
    assert await place.names(POD) == [f"{NAME}-0"]


async def test_a_deleted_set_stays_until_the_freeze_is_over(
    harness: NodeSetHarness, place: Place
) -> None:
    before = await settled(place)
    async with frozen(harness.client) as freeze:
        await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
        await harness.client.delete(CosmosFullNode, NAME, namespace=place.namespace)
        await waits(place, 1)
        assert await place.uids() == before
    await place.until_event("DeletionsHeld")
    assert await place.uids() == before
    await place.edit(deletionProtection=False)
    await place.gone()
