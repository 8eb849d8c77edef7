"""A set is Complete and Ready only where everything that it has is seen to be well (issue 31, part A)."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from apis.cosmos import CosmosFullNodeStatus, FullNodePhase, SyncInfo
from ctrlruntime.api import find_condition
from ctrlruntime.api.kinds import Manifest
from internal.cosmos.cache.memory import NOT_ASKED
from internal.cosmos.cache.observation import Observation
from internal.cosmos.cache.pods import TERMINATING, WITHOUT_ADDRESS
from internal.cosmos.fullnode.phase import conditions
from internal.cosmos.fullnode.status import ready_count, set_status, stalled_nodes, synced
from internal.cosmos.workload.claims import ClaimProgress, check_resize
from tests.cosmos.fullnode.harness import NodeSetHarness, Place
from tests.cosmos.fullnode.test_status import NOON, facts, node
from tests.cosmos.fullnode.test_verdict import found, judged, node_set
from tests.resources.ordinal_factories import claim, existing
from tests.support.waiting import eventually

pytestmark = pytest.mark.criterion("N-A18")

WELL = node(1)
NODES: dict[str, Observation] = {
    "terminating on a dead machine": replace(WELL, error=TERMINATING),
    "without an address": replace(WELL, at=None, height=None, error=WITHOUT_ADDRESS),
    "never asked": replace(WELL, at=None, height=None, error=NOT_ASKED),
    "no answer": node(1, None),
    "behind": node(1, behind=True),
    "an unknown answer": replace(WELL, catching_up=None),
    "no new block": replace(WELL, block_at=NOON - timedelta(minutes=11)),
}
GROWN: Manifest = {"resources": {"requests": {"storage": "5Gi"}}}
SMALL: Manifest = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
ERROR: Manifest = {"type": "ControllerResizeError", "status": "True", "message": "quota exceeded"}
RESIZES: dict[str, tuple[Manifest, str, str]] = {
    "refused": ({**SMALL, "conditions": [ERROR]}, "ResizeFailed", "quota exceeded"),
    "refused on the machine": (
        {**SMALL, "conditions": [{**ERROR, "type": "NodeResizeError"}]},
        "ResizeFailed",
        "quota exceeded",
    ),
    "cannot be done": (
        {**SMALL, "allocatedResourceStatuses": {"storage": "ControllerResizeInfeasible"}},
        "ResizeFailed",
        "ControllerResizeInfeasible",
    ),
    "under way": (SMALL, "Resizing", "has 1Gi, not 5Gi"),
    "error of before": (
        {**SMALL, "conditions": [{**ERROR, "status": "False"}]},
        "Resizing",
        "has 1Gi, not 5Gi",
    ),
    "done": ({**SMALL, "capacity": {"storage": "5Gi"}}, "AsSpecified", ""),
}


def status_with(other: Observation) -> CosmosFullNodeStatus:
    """Return the status of a set of two nodes, one of which is well."""
    before = CosmosFullNodeStatus()
    said = (node(0), other)
    sync = synced(before.sync, said, NOON)
    final = judged(found(stalled=stalled_nodes(said, before)), ready_count(sync), 2)
    given = facts(*said, phase=final.phase, message=final.message, reason=final.reason).facts
    set_status(before, replace(given, sync=sync), NOON)
    return before


def is_good(status: CosmosFullNodeStatus) -> bool:
    ready = find_condition(status.conditions, "Ready")
    assert ready is not None
    assert (ready.status == "True") is (status.phase is FullNodePhase.COMPLETE)
    return ready.status == "True"


@pytest.mark.criterion("N-A5")
@pytest.mark.parametrize("other", NODES)
def test_a_set_is_ready_only_if_every_node_was_seen_to_be_well(other: str) -> None:
    assert is_good(status_with(WELL))
    assert not is_good(status_with(NODES[other]))


@pytest.mark.criterion("N-A6")
@pytest.mark.parametrize("resize", RESIZES)
def test_a_set_is_complete_only_if_its_disks_have_what_they_request(resize: str) -> None:
    status, reason, words = RESIZES[resize]
    progress = ClaimProgress()
    check_resize(progress, existing(claim(0, spec=GROWN), status=status))
    given = found(claims=progress)
    final, (shown,) = judged(given), conditions(node_set(), given)
    assert shown.reason == reason
    assert words in shown.message
    assert words in final.message
    assert (final.phase is FullNodePhase.COMPLETE) is (reason == "AsSpecified")


def test_a_manager_that_has_not_asked_yet_does_not_take_a_stalled_chain_for_a_good_one() -> None:
    before = status_with(NODES["no new block"])
    unasked = replace(WELL, at=None, height=None, error=NOT_ASKED)
    assert stalled_nodes([unasked], before) == ["hub-1"]
    assert stalled_nodes([WELL], before) == []
    before.sync = {"hub-1": SyncInfo(in_sync=True)}
    assert ready_count(synced(before.sync, [unasked], NOON)) == 1


@pytest.mark.asyncio(loop_scope="module")
async def test_a_chain_that_stands_still_is_reported_and_can_be_changed(
    harness: NodeSetHarness, place: Place
) -> None:
    await place.apply(place.node_set(replicas=2))
    await place.settled()
    for number in range(2):
        place.node(number).block_age = 3600
    stalled = await place.until(lambda found: found.status.phase == "Progressing")
    ready = find_condition(stalled.status.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "ChainStalled")
    before = await place.uids()
    await place.edit(podTemplate={"image": "gaia:v2"})
    await eventually(place.uids, lambda now: not set(now.values()) & set(before.values()))
    for number in range(2):
        place.node(number).block_age = 0
    await place.settled()
