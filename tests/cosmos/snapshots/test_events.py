"""What events, conditions and metrics tell of regular snapshots."""

from __future__ import annotations

from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from apis.cosmos import ScheduledVolumeSnapshotStatus, SnapshotPhase
from ctrlruntime.api import find_condition
from internal.cosmos.snapshots.conditions import conclude
from internal.cosmos.snapshots.events import Reason, of_step
from internal.cosmos.snapshots.machine import NoCandidate, choose
from internal.cosmos.snapshots.metrics import SnapshotMetrics
from tests.cosmos.snapshots.fake_cluster import SET, Cluster, Schedule, spec
from tests.cosmos.snapshots.test_machine import begun, down, reach, ready

Phase = SnapshotPhase


def told(schedule: Schedule) -> list[Reason]:
    """Reasons of what one look is worth telling; nothing is done."""
    facts, before = schedule.facts(), schedule.status
    decided = schedule.decide()
    schedule.write(decided)
    return [reason for reason, _ in of_step(before, decided.status, facts)]


@pytest.mark.parametrize(
    ("phase", "reason"),
    [
        (Phase.FINDING_CANDIDATE, Reason.FIND_CANDIDATE),
        (Phase.DELETING_POD, Reason.DELETE_POD),
        (Phase.WAITING_FOR_POD_DELETION, Reason.WAITING_FOR_POD_DELETION),
        (Phase.CREATING_SNAPSHOT, Reason.CREATE_SNAPSHOT),
        (Phase.WAITING_FOR_SNAPSHOT_CREATION, Reason.SNAPSHOT_READY),
        (Phase.WAITING_FOR_POD_RESTORATION, Reason.RESTORE_POD),
    ],
)
def test_a_deadline_is_reported_by_what_was_waited_for(phase: Phase, reason: Reason) -> None:
    schedule = reach(phase)
    assert told(schedule) == []
    schedule.cluster.pass_time(hours=2)
    schedule.cluster.lagging = {f"{SET}-0"}
    assert reason in told(schedule)


def test_a_node_that_cannot_be_given_back_is_reported_once() -> None:
    schedule = reach(Phase.RESTORING_POD)
    assert told(schedule) == []
    schedule.cluster.pass_time(hours=2)
    assert told(schedule) == [Reason.RESTORE_POD]
    assert told(schedule) == []
    before, facts = schedule.status, schedule.facts()
    conclude(before, schedule.status, facts, schedule.cluster.now)
    condition = find_condition(schedule.status.conditions, "Ready")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "NodeHeldDown")
    assert f"{SET}-0 stays down" in condition.message


def test_a_failure_is_reported_once() -> None:
    schedule = down()
    schedule.cluster.copies["nightly-202601010010"].error = "quota exceeded"
    assert told(schedule) == [], "the driver tries again until the deadline"
    schedule.cluster.pass_time(hours=2)
    assert told(schedule) == [Reason.SNAPSHOT_READY]
    for _ in range(3):
        schedule.look()
        assert told(schedule) == []


@pytest.mark.criterion("COSMOS-A8-4")
def test_why_no_node_is_found_is_reported_once_for_each_reason() -> None:
    schedule = begun()
    schedule.cluster.lagging = {f"{SET}-0", f"{SET}-1"}
    assert told(schedule) == [Reason.FIND_CANDIDATE]
    assert told(schedule) == []
    schedule.cluster.lagging = {f"{SET}-0"}
    assert told(schedule) == [Reason.FIND_CANDIDATE]


def test_a_bad_schedule_and_missing_kinds_are_reported_once() -> None:
    schedule = Schedule(Cluster(), spec(schedule="whenever"))
    assert told(schedule) == [Reason.FIND_NEXT_TIME]
    assert told(schedule) == []
    schedule.cluster.served = False
    assert told(schedule) == [Reason.MISSING_CRDS]
    assert told(schedule) == []


def test_conditions() -> None:
    schedule = Schedule(Cluster(served=False), spec())
    facts, status = schedule.facts(), schedule.decide().status
    conclude(schedule.status, status, facts, schedule.cluster.now)
    found = [(each.type, each.status, each.reason) for each in status.conditions]
    assert found == [("CRDsAvailable", "False", "NotServed"), ("Ready", "False", "MissingCRDs")]
    before = status.model_copy(deep=True)
    conclude(before, status, facts, schedule.cluster.now)
    assert status == before
    assert find_condition(status.conditions, "Ready") is not None


def test_a_set_or_node_that_does_not_exist_is_named() -> None:
    schedule = Schedule(Cluster(), spec())
    facts = replace(schedule.facts(), node_set=False)
    status = schedule.decide().status
    conclude(schedule.status, status, facts, schedule.cluster.now)
    ready = find_condition(status.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("False", "NodeSetMissing")
    pinned = spec(fullNodeRef={"name": SET, "ordinal": 9})
    with pytest.raises(NoCandidate, match=f"{SET} has no node 9: correct spec.fullNodeRef.ordinal"):
        choose(pinned, replace(facts, node_set=True, has_pinned=False))


def test_phases_and_results_are_counted() -> None:
    registry = CollectorRegistry()
    metrics = SnapshotMetrics(registry)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    schedule, before = down(), ScheduledVolumeSnapshotStatus()
    for _ in range(2):
        metrics.show("a", before, schedule.status)
        before = schedule.status
    phase = Phase.WAITING_FOR_SNAPSHOT_CREATION
    assert value("cosmos_snapshot_schedules", phase=phase) == 1
    ready(schedule)
    schedule.look()
    metrics.show("a", before, schedule.status)
    metrics.show("a", schedule.status, schedule.status)
    assert value("cosmos_snapshots_total", result="ready") == 1
    assert value("cosmos_snapshot_schedules", phase=phase) == 0
    metrics.forget("a")
    assert value("cosmos_snapshot_schedules", phase=Phase.WAITING_FOR_POD_RESTORATION) == 0
