"""What the status of a set of nodes becomes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apis.cosmos import (
    CosmosFullNodeStatus,
    FullNodePhase,
    PVCAutoScaleRequest,
    RolloutStatus,
    ScheduledSnapshotStatus,
)
from ctrlruntime.api import Condition, Quantity, find_condition
from internal.cosmos.cache.memory import NOT_ASKED
from internal.cosmos.cache.observation import Observation
from internal.cosmos.cache.pods import TERMINATING, WITHOUT_ADDRESS
from internal.cosmos.fullnode.status import (
    CRDS,
    Facts,
    next_heights,
    set_status,
    synced,
    until_complete,
)

NOON = datetime(2026, 5, 1, 12, 0, 5, tzinfo=UTC)


def node(ordinal: int, height: int | None = 100, *, behind: bool = False) -> Observation:
    error = "" if height is not None else "connection refused"
    return Observation(
        f"hub-{ordinal}", f"uid-{ordinal}", ordinal, NOON, height, behind, error=error
    )


@dataclass(frozen=True)
class Given:
    facts: Facts
    observations: tuple[Observation, ...]
    made: tuple[str, ...] = ()


def facts(*observations: Observation, made: tuple[str, ...] = (), **more: object) -> Given:
    given: dict[str, Any] = {
        "generation": 3,
        "phase": FullNodePhase.COMPLETE,
        "message": "As it should be.",
        "replicas": len(observations),
        "wanted": len(observations),
        "nodes": [each.pod for each in observations],
        "heights": next_heights(observations),
        "rollout": RolloutStatus(),
        **more,
    }
    return Given(Facts(**given), observations, made)


def told(status: CosmosFullNodeStatus, given: Given, seconds: float = 0) -> CosmosFullNodeStatus:
    after, now = status.model_copy(deep=True), NOON + timedelta(seconds=seconds)
    sync = synced(status.sync, given.observations, now, given.made)
    set_status(after, replace(given.facts, sync=sync), now)
    return after


def test_what_nodes_report_is_published_with_the_next_height() -> None:
    after = told(CosmosFullNodeStatus(), facts(node(0), node(1, None), node(2, 90, behind=True)))
    assert after.height == {"hub-0": 101, "hub-2": 91}
    assert after.sync["hub-0"].in_sync is True
    assert after.sync["hub-1"].error == "connection refused"
    assert after.sync["hub-1"].in_sync is None
    assert after.sync["hub-2"].in_sync is False
    assert after.sync["hub-0"].timestamp == NOON.replace(second=0)
    assert after.ready_replicas == 1
    ready = find_condition(after.conditions, "Ready")
    assert ready is not None
    assert ready.status == "False"
    assert ready.message == "1 of 3 nodes have caught up."


def test_nothing_new_changes_nothing_however_late() -> None:
    before = told(CosmosFullNodeStatus(), facts(node(0), node(1)))
    assert told(before, facts(node(0), node(1)), seconds=7200) == before


@pytest.mark.criterion("COSMOS-A3-3")
def test_heights_alone_wait_for_the_next_minute() -> None:
    before = told(CosmosFullNodeStatus(), facts(node(0)))
    later = facts(node(0, 105))
    assert told(before, later, seconds=20) == before
    after = told(before, later, seconds=60)
    assert after.height == {"hub-0": 106}
    assert (after.sync["hub-0"].height, after.last_block) == (105, 105)
    assert told(after, facts(node(0, 110)), seconds=80) == after


def test_a_height_that_decides_on_another_version_does_not_wait() -> None:
    images = {0: "registry:5000/gaia:v19", 100: "gaia@sha256:0123456789abcdef"}
    before = told(CosmosFullNodeStatus(), facts(node(0, 98), images=images))
    after = told(before, facts(node(0, 99), crossed=True, images=images), seconds=1)
    assert after.height == {"hub-0": 100}
    assert (before.version, after.version) == ("v19", "0123456789ab")
    silent = told(after, facts(node(0, None), images=images), seconds=90)
    assert (silent.last_block, silent.version) == (99, "0123456789ab")


def test_a_node_that_falls_behind_is_reported_at_once() -> None:
    before = told(CosmosFullNodeStatus(), facts(node(0), node(1)))
    after = told(before, facts(node(0, 101), node(1, 100, behind=True)), seconds=1)
    assert after.ready_replicas == 1
    assert after.height["hub-0"] == 102, "heights go along"


@pytest.mark.parametrize(
    ("error", "ready"), [(NOT_ASKED, 2), (TERMINATING, 1), (WITHOUT_ADDRESS, 1)]
)
def test_a_node_that_cannot_answer_is_not_as_an_earlier_manager_left_it(
    error: str, ready: int
) -> None:
    before = told(CosmosFullNodeStatus(), facts(node(0), node(1)))
    unasked = Observation("hub-1", "uid-1", 1, error=error)
    after = told(before, facts(node(0), unasked), seconds=1)
    assert after.ready_replicas == ready
    found = {condition.type: condition.status for condition in after.conditions}
    assert found["Ready"] == ("True" if ready == 2 else "False")


def test_heights_never_go_down_until_the_disk_is_another() -> None:
    before = told(CosmosFullNodeStatus(height={"hub-0": 500}), facts(node(0, 100)))
    assert before.height == {"hub-0": 500}
    renewed = facts(
        node(0, None), emptied=["pvc-hub-0"], emptied_nodes=["hub-0"], heights={"hub-0": 3}
    )
    assert told(before, renewed).height == {"hub-0": 3}


def test_heights_are_kept_while_the_disk_is_there() -> None:
    before = CosmosFullNodeStatus(height={"hub-0": 5, "hub-1": 7, "hub-2": 9})
    after = told(before, facts(node(0, 9), nodes=["hub-0", "hub-1"]))
    assert after.height == {"hub-0": 10, "hub-1": 7}


@pytest.mark.criterion("COSMOS-A3-4")
def test_what_others_write_stays() -> None:
    request = PVCAutoScaleRequest(requested_size=Quantity("2Gi"), requested_at=NOON)
    pause = ScheduledSnapshotStatus(pod_candidate="hub-1")
    before = CosmosFullNodeStatus(scheduled_snapshot_status={"key": pause})
    before.self_healing.pvc_auto_scaler = {"pvc-hub-0": request, "pvc-hub-1": request}
    after = told(before, facts(node(0), emptied=["pvc-hub-1"]))
    assert after.scheduled_snapshot_status == {"key": pause}
    assert after.self_healing.pvc_auto_scaler == {"pvc-hub-0": request}


def test_peers_stay_until_all_are_known() -> None:
    before = CosmosFullNodeStatus(peers=["id@host:26656"])
    assert told(before, facts(node(0), peers=None)).peers == ["id@host:26656"]
    assert told(before, facts(node(0), peers=[])).peers == []


def test_the_image_beside_the_nodes_is_recorded_once() -> None:
    first = told(CosmosFullNodeStatus(), facts(node(0), sidecar_image="manager:1"))
    assert told(first, facts(node(0), sidecar_image="manager:2")).sidecar_image == "manager:1"


@pytest.mark.parametrize(
    ("phase", "busy"),
    [
        (FullNodePhase.COMPLETE, "False"),
        (FullNodePhase.PROGRESSING, "True"),
        (FullNodePhase.TRANSIENT_ERROR, "True"),
        (FullNodePhase.ERROR, "False"),
        (FullNodePhase.WAITING_FOR_P2P_SERVICES, "False"),
    ],
)
def test_progressing_follows_the_phase(phase: FullNodePhase, busy: str) -> None:
    after = told(CosmosFullNodeStatus(), facts(node(0), phase=phase))
    condition = find_condition(after.conditions, "Progressing")
    assert condition is not None
    assert (condition.status, condition.reason) == (busy, phase.value)


def test_obsolete_conditions_go() -> None:
    missing = Condition(type=CRDS, status="False", reason="NotServed", message="no snapshots")
    before = told(CosmosFullNodeStatus(), facts(node(0), conditions=[missing]))
    assert find_condition(before.conditions, CRDS) is not None
    assert find_condition(told(before, facts(node(0))).conditions, CRDS) is None


def test_a_node_not_polled_since_a_restart_is_as_it_was() -> None:
    before = told(CosmosFullNodeStatus(), facts(node(0), node(1)))
    unasked = [Observation(f"hub-{n}", f"uid-{n}", n, error="not asked yet") for n in (0, 1)]
    assert told(before, facts(*unasked), seconds=600) == before
    after = told(before, facts(*unasked, made=("hub-1",)), seconds=1)
    assert after.ready_replicas == 1
    assert after.sync["hub-1"].error == "not asked yet"


def _facts(height: int) -> Facts:
    said = told(CosmosFullNodeStatus(), facts(node(0, height))).sync
    return replace(facts(node(0, height)).facts, sync=said)


@pytest.mark.parametrize(
    ("seconds", "height", "expected"),
    [(10, 100, None), (10, 101, 45.0), (54, 101, 1.0), (70, 101, None)],
)
def test_a_height_left_out_is_due_later(
    seconds: float, height: int, expected: float | None
) -> None:
    first = told(CosmosFullNodeStatus(), facts(node(0, 100)))
    then = told(first, facts(node(0, height)), seconds)
    found = until_complete(then, _facts(height), NOON + timedelta(seconds=seconds))
    assert found == expected
    assert (then.height == {"hub-0": height + 1}) is (expected is None)


def test_a_usage_left_out_is_written_later() -> None:
    """The disk answers after the node did, and nothing happens any more: a chain that stands still."""
    before = told(CosmosFullNodeStatus(), facts(node(0, 100)))
    (info,) = before.sync.values()
    used = {"hub-0": info.model_copy(update={"disk_used_percentage": 40})}
    known = replace(_facts(100), sync=used)
    assert until_complete(before, known, NOON + timedelta(seconds=10)) is not None


def test_a_clock_that_was_ahead_delays_no_height() -> None:
    ahead = told(CosmosFullNodeStatus(), facts(node(0, 100)), 7200)
    assert told(ahead, facts(node(0, 101)), 10).height == {"hub-0": 102}
