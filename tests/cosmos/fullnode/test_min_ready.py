"""How long a Pod has to work before the next one is taken down, and a phase that is never better than the nodes."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apis.cosmos import CosmosFullNode
from ctrlruntime.api import find_condition
from ctrlruntime.api.scalars import format_time
from ctrlruntime.cache.entry import Entry, EntryDecoder
from internal.cosmos.cache.observation import Observation
from internal.cosmos.fullnode.min_ready import (
    next_available,
    remaining,
    since_of_node,
    with_min_ready,
)
from internal.cosmos.workload.probe import Health
from tests.cosmos.fullnode.harness import POD, NodeSetHarness, Place

NOON = datetime(2026, 5, 1, 12, 0, 0, tzinfo=UTC)
HOUR = 3600


def pod(started: int | None = 60, ready: int | None = 60, uid: str = "uid-0") -> Entry:
    """A Pod whose container and whose readiness are so many seconds old."""
    status: dict[str, Any] = {"podIP": "127.0.0.9", "phase": "Running"}
    if started is not None:
        at = format_time(NOON - timedelta(seconds=started))
        running = {"state": {"running": {"startedAt": at}}}
        status["containerStatuses"] = [{"name": "healthcheck"}, {"name": "node", **running}]
    if ready is not None:
        at = format_time(NOON - timedelta(seconds=ready))
        status["conditions"] = [{"type": "Ready", "status": "True", "lastTransitionTime": at}]
    metadata = {"name": "hub-0", "uid": uid}
    return EntryDecoder(POD.gvk).decode_manifest({"metadata": metadata, "status": status})


def answered(seconds: float | None) -> Observation:
    """A node that has been in sync for so long; None: for unknown time."""
    since = None if seconds is None else NOON - timedelta(seconds=seconds)
    return Observation("hub-0", "uid-0", 0, NOON, 100, False, in_sync_since=since)


WORKS = Health(available=True, reachable=True)
DOWN = Health(available=False, reachable=False, detail="no answer")


def probe(health: Health) -> Callable[[Entry], Health]:
    return lambda _entry: health


@pytest.mark.criterion("H-C3")
@pytest.mark.parametrize(
    ("entry", "answer", "left"),
    [
        (pod(), answered(60), 0),
        (pod(), answered(3), 7),
        (pod(started=4), answered(60), 6),
        (pod(ready=1), answered(60), 9),
        (pod(started=None, ready=None), answered(60), 0),
        (pod(started=2, ready=None), answered(None), 8),
        (pod(started=-30), answered(60), 0),
        (pod(started=None, ready=None), answered(None), 0),
    ],
    ids=[
        "works long",
        "the first good answer was just now",
        "its container was restarted between two answers",
        "its Pod was ready only now",
        "only answers are known",
        "this manager has no answers yet",
        "the clock of its machine is ahead",
        "nothing is known",
    ],
)
def test_h_c3_the_latest_moment_counts(entry: Entry, answer: Observation, left: float) -> None:
    since = since_of_node([answer])
    assert remaining(since(entry), 10, NOON) == left
    health = with_min_ready(probe(WORKS), since, 10, NOON)(entry)
    assert health.available is (left == 0)
    assert health.known is (left == 0), "until then it is left alone"
    assert next_available([entry], probe(WORKS), since, 10, NOON) == left


@pytest.mark.criterion("H-C3")
def test_h_c3_ten_seconds_are_the_default() -> None:
    root = CosmosFullNode.crd()["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    strategy = root["properties"]["spec"]["properties"]["strategy"]
    assert strategy["properties"]["minReadySeconds"]["default"] == 10


def test_h_c3_what_does_not_work_waits_for_nothing() -> None:
    since = since_of_node([answered(1)])
    assert with_min_ready(probe(DOWN), since, 10, NOON)(pod()) == DOWN
    assert next_available([pod()], probe(DOWN), since, 10, NOON) == 0


@given(
    ages=st.lists(st.none() | st.floats(-100, 100), max_size=4),
    seconds=st.floats(0, 100),
    later=st.floats(0, 200),
)
def test_h_c3_the_wait_ends_exactly_when_announced(
    ages: list[float | None], seconds: float, later: float
) -> None:
    since = [None if age is None else NOON - timedelta(seconds=age) for age in ages]
    past = [moment for moment in since if moment is not None and moment <= NOON]
    left = remaining(past, seconds, NOON)
    assert 0 <= left <= seconds
    then = remaining(past, seconds, NOON + timedelta(seconds=later))
    assert then == pytest.approx(max(left - later, 0), abs=1e-4)


async def _in_sync_but_young(place: Place) -> CosmosFullNode:
    """The set, once one Pod of the new image answers and the others wait for it."""
    found: CosmosFullNode = await place.until(
        lambda found: (
            "minReadySeconds" in found.status.rollout.blocked
            and found.status.rollout.outdated == 2
            and found.status.observed_generation == found.metadata.generation
        )
    )
    return found


@pytest.mark.criterion("H-C3")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.xdist_group("sets of nodes")
async def test_h_c3_a_binary_that_dies_after_a_good_answer_takes_one_node(
    harness: NodeSetHarness, place: Place
) -> None:
    """A restart of the manager in between takes no further one."""
    await place.apply(place.node_set(strategy={"minReadySeconds": HOUR}))
    await place.settled()
    before = await place.uids()
    await place.edit(podTemplate={"image": "gaia:v2"})
    # All Pods are younger than an hour: none may go.
    await place.until(lambda found: "minReadySeconds" in found.status.rollout.blocked)
    assert await place.uids() == before
    await place.client.delete(POD, "hub-1", namespace=place.namespace)  # the first of the new image
    await _in_sync_but_young(place)
    await harness.stop_manager()
    await harness.start_manager()
    await place.polled()
    place.node(1).unreachable = True
    await place.until(lambda found: found.status.ready_replicas == 2)
    await place.polled()
    now = await place.uids()
    assert (now["hub-0"], now["hub-2"]) == (before["hub-0"], before["hub-2"])
    found = await place.phase("Progressing")
    ready = find_condition(found.status.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "NodesBehind")
    place.node(1).unreachable = False
    await place.edit(strategy={"minReadySeconds": 0})
    await place.settled()


@pytest.mark.criterion("H-C3")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.xdist_group("sets of nodes")
async def test_h_c3_the_rollout_goes_on_by_a_timer(harness: NodeSetHarness, place: Place) -> None:
    """Nothing happens at the end of the time but the end of the time."""
    await place.apply(place.node_set(replicas=2, strategy={"minReadySeconds": 2}))
    await place.settled()
    before = await place.uids()
    await place.edit(podTemplate={"image": "gaia:v2"})
    found = await place.settled()
    assert not set(before.values()) & set((await place.uids()).values())
    assert found.status.rollout.blocked == ""


@pytest.mark.criterion("H-C3")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.xdist_group("sets of nodes")
async def test_h_c3_the_phase_is_not_complete_while_a_node_is_down(
    harness: NodeSetHarness, place: Place
) -> None:
    await place.apply(place.node_set())
    await place.settled()
    place.node(2).unreachable = True
    found = await place.phase("Progressing")
    assert found.status.status == "2 of 3 nodes have caught up: hub-2 does not answer."
    await harness.idle()
    silence = harness.mark()
    await harness.comet.until_asked("hub-0", place.namespace, more=5)
    assert place.requests(silence) == [], "it is waited for without a request"
    place.node(2).unreachable = False
    found = await place.phase("Complete")
    ready = find_condition(found.status.conditions, "Ready")
    assert ready is not None
    assert ready.status == "True"
