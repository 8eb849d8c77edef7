"""Failed Pods halt the rollout of a set of nodes until the spec is corrected."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apis.cosmos import CosmosFullNode
from ctrlruntime.api import find_condition
from ctrlruntime.client.errors import Invalid
from ctrlruntime.json import Json
from tests.cosmos.fullnode.harness import NAME, PATIENCE, POD, NodeSetHarness, Place, pods

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("sets of nodes"),
    pytest.mark.criterion("RO-COSMOS"),
]

BAD = {"image": "gaia:does-not-exist"}


async def started(place: Place, **strategy: Json) -> dict[str, str]:
    """A set of six nodes that have caught up; the UIDs of their Pods."""
    given = {"maxUnavailable": 4, "haltOnFailures": 2, **strategy}
    settings = {key: value for key, value in given.items() if value is not None}
    await place.apply(place.node_set(replicas=6, strategy=settings))
    await place.settled()
    return await place.uids()


async def halted(place: Place, failed: int) -> CosmosFullNode:
    """The set, once all Pods that its budget let change have failed: the last of them may be made after the halt."""
    found: CosmosFullNode = await place.until(
        lambda each: bool(each.status.rollout.halted) and each.status.rollout.failed == failed
    )
    return found


async def images(place: Place) -> dict[str, str]:
    found = await place.client.list(POD, place.namespace)
    return {pod["metadata"]["name"]: _image(pod) for pod in found}


def condition(found: CosmosFullNode) -> tuple[str, str]:
    made = find_condition(found.status.conditions, "RolloutHalted")
    assert made is not None
    return made.status, made.reason


async def test_a_bad_image_halts_after_as_many_failed_pods_as_the_limit(
    harness: NodeSetHarness, place: Place
) -> None:
    before = await started(place, maxUnavailable=1, haltOnFailures=1)
    await place.edit(podTemplate=BAD)
    found = await halted(place, 1)
    assert found.status.rollout.outdated == 5
    assert condition(found) == ("True", "TooManyFailures")
    assert "the rollout is halted, 1 member failed: hub-" in found.status.rollout.blocked
    assert found.status.phase == "Progressing"
    await place.until_event("RolloutHalted")
    await place.edit(strategy={"maxUnavailable": 6})  # there would be a budget for all
    await place.until(lambda each: each.status.observed_generation == each.metadata.generation)
    await place.polled()
    after = await place.uids()
    assert len(set(after.values()) & set(before.values())) == 5


async def test_the_limit_may_be_a_percentage_and_bounds_the_failed_pods(place: Place) -> None:
    before = await started(place, maxUnavailable="50%", haltOnFailures="34%")
    await place.edit(podTemplate=BAD)
    await halted(place, 3)
    kept = set((await place.uids()).values()) & set(before.values())
    assert len(kept) == 3, "no more than the budget has been changed"


async def test_without_a_limit_nothing_halts_and_there_is_no_condition(place: Place) -> None:
    await started(place, haltOnFailures=None)
    await place.edit(podTemplate=BAD)
    found = await place.until(lambda each: "may" in each.status.rollout.blocked)
    assert find_condition(found.status.conditions, "RolloutHalted") is None
    assert (found.status.rollout.halted, found.status.rollout.failed) == ("", 0)


async def test_a_corrected_spec_ends_the_halt_and_fixes_the_failed_pods_first(
    harness: NodeSetHarness, place: Place
) -> None:
    await started(place)
    await place.edit(podTemplate=BAD)
    await halted(place, 4)
    failed = {name for name, image in (await images(place)).items() if image == BAD["image"]}
    mark = harness.mark()
    await place.edit(strategy={"maxUnavailable": 1}, podTemplate={"image": "gaia:v3"})
    found = await place.settled()
    deleted = place.deletions(mark)
    assert set(deleted[: len(failed)]) == failed, "all at once, whatever the budget is"
    assert sorted(deleted) == pods(range(6)), "each once"
    assert set((await images(place)).values()) == {"gaia:v3"}
    found = await place.until(lambda each: condition(each) == ("False", "NotHalted"))
    assert found.status.rollout.halted == ""
    assert found.status.rollout.fixes == []


async def test_going_back_to_the_spec_before_leaves_the_others_untouched(
    harness: NodeSetHarness, place: Place
) -> None:
    before = await started(place)
    await place.edit(podTemplate=BAD)
    await halted(place, 4)
    bad = {name for name, image in (await images(place)).items() if image == BAD["image"]}
    mark = harness.mark()
    await place.edit(podTemplate={"image": "gaia:v1"})
    await place.settled()
    assert set(place.deletions(mark)) == bad
    after = await place.uids()
    assert {name for name in after if after[name] == before[name]} == set(before) - bad


async def test_a_higher_limit_lets_the_rollout_go_on(place: Place) -> None:
    await started(place, maxUnavailable=2, haltOnFailures=1)
    await place.edit(podTemplate=BAD)
    await halted(place, 2)
    await place.edit(strategy={"maxUnavailable": 6, "haltOnFailures": 6})
    await place.until(lambda each: each.status.rollout.failed == 6)
    found = await place.until(lambda each: each.status.rollout.outdated == 0)
    assert found.status.rollout.halted == ""


async def test_a_node_that_was_down_before_its_change_halts_nothing(place: Place) -> None:
    await started(place, maxUnavailable=2, haltOnFailures=1, progressDeadlineSeconds=2)
    await asyncio.sleep(2)  # the deadline of its Pod
    place.node(0).unreachable = True
    await place.until(lambda each: each.status.ready_replicas == 5)
    await place.edit(podTemplate={"image": "gaia:v2"})
    found = await place.until(lambda each: each.status.rollout.fixes == ["hub-0"])
    await place.until_object(POD, "hub-5", lambda pod: pod is not None and _image(pod) == "gaia:v2")
    found = await place.until(
        lambda each: each.status.rollout.outdated == 0 and each.status.ready_replicas == 5
    )
    assert (found.status.rollout.failed, found.status.rollout.halted) == (0, "")
    assert found.status.rollout.fixes == ["hub-0"]
    place.node(0).unreachable = False
    found = await place.settled()
    assert found.status.rollout.fixes == []


async def test_a_node_that_does_not_answer_in_time_has_failed(
    harness: NodeSetHarness, place: Place
) -> None:
    before = await started(
        place, maxUnavailable=1, haltOnFailures=1, progressDeadlineSeconds=3, minReadySeconds=5
    )
    await place.edit(podTemplate={"image": "gaia:v2"})
    changed = await _first_changed(place)
    number = int(changed.rpartition("-")[2])
    place.node(number).unreachable = True
    try:
        found = await halted(place, 1)
        assert found.status.rollout.halted == f"1 member failed: {changed}"
        await place.edit(strategy={"maxUnavailable": 6})
        await place.until(lambda each: each.status.observed_generation == each.metadata.generation)
        await place.polled()
        after = await place.uids()
        assert [name for name in before if after[name] != before[name]] == [changed]
    finally:
        place.node(number).unreachable = False
    await place.settled()  # it works after all, and the rollout goes on
    assert set((await images(place)).values()) == {"gaia:v2"}


async def _first_changed(place: Place) -> str:
    async with asyncio.timeout(PATIENCE):
        while True:
            new = [name for name, image in (await images(place)).items() if image == "gaia:v2"]
            if new:
                return new[0]
            await asyncio.sleep(0.02)


def _image(pod: dict[str, Any]) -> str:
    return str(next(each["image"] for each in pod["spec"]["containers"] if each["name"] == "node"))


async def test_a_halt_survives_a_restart_of_the_manager(
    harness: NodeSetHarness, place: Place
) -> None:
    await started(place, maxUnavailable=3)
    await place.edit(podTemplate=BAD)
    await halted(place, 3)
    await harness.idle()
    before, mark = await place.uids(), harness.mark()
    for _ in range(2):
        await harness.stop_manager()
        await harness.start_manager()
        await place.polled()
        found = await halted(place, 3)
        assert condition(found) == ("True", "TooManyFailures")
    await place.edit(strategy={"maxUnavailable": 6})
    await place.until(lambda each: each.status.observed_generation == each.metadata.generation)
    await place.polled()
    assert await place.uids() == before
    assert place.deletions(mark) == []
    await place.edit(podTemplate={"image": "gaia:v4"})
    await place.settled()


@pytest.mark.parametrize(
    "strategy",
    [
        {"haltOnFailures": "many"},
        {"haltOnFailures": -1},
        {"progressDeadlineSeconds": 0},
        {"progressDeadlineSeconds": 86401},
    ],
)
async def test_nonsense_is_refused_on_admission(place: Place, strategy: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match=next(iter(strategy))):
        await place.apply(place.node_set(NAME, strategy=strategy))
