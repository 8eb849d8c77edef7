"""The state machine, phase by phase."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from apis.cosmos import SnapshotPhase
from internal.cosmos.snapshots.effects import Create, Hold, Pause, Release, Restore
from internal.cosmos.snapshots.machine import give_up, is_stuck
from tests.cosmos.snapshots.fake_cluster import BEGIN, SET, Cluster, Copy, Schedule, spec

Phase = SnapshotPhase
FIRST = "nightly-202601010010"


def begun(**fields: object) -> Schedule:
    """Ten minutes after its making: the first time is due."""
    schedule = Schedule(Cluster(), spec(**fields))
    schedule.look()
    schedule.cluster.pass_time(minutes=10)
    return schedule


def down(**fields: object) -> Schedule:
    """The node is down, its Pod has ended, the snapshot is being made."""
    schedule = begun(**fields)
    schedule.look()
    schedule.cluster.settle()
    schedule.look()
    assert schedule.status.phase is Phase.WAITING_FOR_SNAPSHOT_CREATION
    assert schedule.cluster.down == {"chains.nightly.v1.cosmos.ctrlruntime.dev": f"{SET}-0"}
    return schedule


def ready(schedule: Schedule, name: str = FIRST) -> None:
    schedule.cluster.copies[name].ready = True


def is_restored(schedule: Schedule) -> bool:
    return not schedule.cluster.down and not schedule.held


def test_it_counts_from_its_making() -> None:
    schedule = Schedule(Cluster(), spec())
    status = schedule.look()
    assert (status.phase, status.created_at) == (Phase.WAITING_FOR_NEXT, BEGIN)
    assert status.next_at == BEGIN + timedelta(minutes=10)
    assert schedule.did == []


@pytest.mark.criterion("COSMOS-A6-1")
def test_a_whole_round() -> None:
    schedule = begun()
    assert schedule.look().phase is Phase.WAITING_FOR_POD_DELETION
    assert schedule.did == [Hold(), Pause(f"{SET}-0")]
    assert schedule.look().phase is Phase.WAITING_FOR_POD_DELETION  # its Pod is still there
    schedule.cluster.settle()
    schedule.look()
    assert schedule.did[2:] == [Create(FIRST, f"pvc-{SET}-0", {"app": f"{SET}-0"})]
    ready(schedule)
    assert schedule.look().phase is Phase.WAITING_FOR_POD_RESTORATION
    assert schedule.did[3:] == [Restore((SET,)), Release()]
    assert schedule.look().phase is Phase.WAITING_FOR_POD_RESTORATION  # its Pod is not back yet
    schedule.cluster.settle()
    status = schedule.look()
    assert (status.phase, status.candidate, status.scheduled_at) == (
        Phase.WAITING_FOR_NEXT,
        None,
        None,
    )
    assert status.next_at == BEGIN + timedelta(minutes=20)
    assert status.last_snapshot is not None
    assert status.last_snapshot.name == FIRST
    assert status.last_snapshot.scheduled_at == BEGIN + timedelta(minutes=10)
    assert status.last_snapshot.status == {"readyToUse": True}


@pytest.mark.criterion("COSMOS-A6-2")
def test_without_delete_pod_no_node_goes_down() -> None:
    schedule = begun(deletePod=False)
    schedule.look()
    assert schedule.did == [Create(FIRST, f"pvc-{SET}-0", {"app": f"{SET}-0"})]
    ready(schedule)
    assert schedule.look().phase is Phase.WAITING_FOR_NEXT


@pytest.mark.criterion("COSMOS-A6-3")
def test_times_that_were_missed_become_one() -> None:
    schedule = begun(deletePod=False)
    schedule.cluster.pass_time(hours=5, minutes=3)
    schedule.look()
    assert schedule.cluster.made == ["nightly-202601010510"]
    ready(schedule, "nightly-202601010510")
    assert schedule.look().next_at == BEGIN + timedelta(hours=5, minutes=20)


# -- candidates ---------------------------------------------------------------------------------------


@pytest.mark.criterion("COSMOS-A6-4")
@pytest.mark.parametrize(
    ("fields", "lagging", "says"),
    [
        ({"minAvailable": 3}, {f"{SET}-1"}, "3 or more nodes of chain have to be in sync, 2 are"),
        ({"fullNodeRef": {"name": SET, "ordinal": 1}}, {f"{SET}-1"}, "maxUnavailable is used up"),
        (
            {"fullNodeRef": {"name": SET, "ordinal": 1}, "deletePod": False},
            {f"{SET}-1"},
            "node 1 of chain is not in sync",
        ),
        ({}, {f"{SET}-2"}, "maxUnavailable is used up"),
    ],
)
def test_why_no_node_is_taken(fields: dict[str, Any], lagging: set[str], says: str) -> None:
    schedule = begun(**fields)
    schedule.cluster.lagging = lagging
    status = schedule.look()
    assert status.phase is Phase.FINDING_CANDIDATE
    assert says in status.status
    schedule.cluster.lagging = set()
    assert schedule.look().phase is not Phase.FINDING_CANDIDATE


@pytest.mark.criterion("COSMOS-A6-4")
def test_the_pinned_node_is_taken() -> None:
    schedule = begun(fullNodeRef={"name": SET, "ordinal": 2})
    status = schedule.look()
    assert status.candidate is not None
    assert (status.candidate.pod_name, status.candidate.pvc_name) == (f"{SET}-2", f"pvc-{SET}-2")


def test_a_node_that_fell_behind_before_it_was_taken_is_left_alone() -> None:
    schedule = begun()
    schedule.write(schedule.decide())  # it dies before the node is asked for
    assert schedule.status.phase is Phase.DELETING_POD
    schedule.cluster.lagging = {f"{SET}-0", f"{SET}-1"}
    assert schedule.look().phase is Phase.FINDING_CANDIDATE
    assert not schedule.cluster.down
    schedule.cluster.lagging = set()
    schedule.look()
    assert list(schedule.cluster.down.values()) == [f"{SET}-0"]


def test_while_a_node_is_down_for_another_none_is_taken() -> None:
    first = down()
    second = Schedule(first.cluster, spec(schedule="*/5 * * * *"), "hourly")
    second.status.created_at = BEGIN
    assert "a node of chain is down for nightly (chain-0)" in second.look().status
    assert len(first.cluster.down) == 1


@pytest.mark.criterion("COSMOS-A6-9")
def test_of_two_who_ask_at_once_one_waits() -> None:
    cluster = Cluster()
    both = [Schedule(cluster, spec(), name) for name in ("nightly", "hourly")]
    for each in both:
        each.look()
    cluster.pass_time(minutes=10)
    for each in both:
        each.write(each.decide())  # neither knows of the other
        assert each.status.phase is Phase.DELETING_POD
    for each in both:
        each.look()
    assert list(cluster.down) == ["chains.nightly.v1.cosmos.ctrlruntime.dev"]
    assert both[1].look().phase is Phase.FINDING_CANDIDATE


# -- failures and deadlines -----------------------------------------------------------------------------


def test_no_node_within_the_deadline() -> None:
    schedule = begun()
    schedule.cluster.lagging = {f"{SET}-0", f"{SET}-1", f"{SET}-2"}
    schedule.look()
    schedule.cluster.pass_time(seconds=600)
    status = schedule.look()
    assert status.last_snapshot is not None
    assert "no node could be taken in time (Cannot take a node yet: 2 or more" in (
        status.last_snapshot.failed
    )
    assert (status.phase, schedule.cluster.made) == (Phase.FINDING_CANDIDATE, [])
    assert status.scheduled_at == BEGIN + timedelta(minutes=20)  # the next time was due by then


@pytest.mark.parametrize("phase", [Phase.DELETING_POD, Phase.WAITING_FOR_POD_DELETION])
def test_a_node_that_does_not_go_down_within_the_deadline(phase: Phase) -> None:
    schedule = begun(schedule="10 0 * * *")
    if phase is Phase.DELETING_POD:
        schedule.write(schedule.decide())
    else:
        schedule.look()
    assert schedule.status.phase is phase
    schedule.cluster.pass_time(seconds=600)
    schedule.look()
    assert schedule.status.last_snapshot is not None
    assert "in time" in schedule.status.last_snapshot.failed
    assert is_restored(schedule)


@pytest.mark.criterion("D5-5", "COSMOS-A6-7")
def test_a_snapshot_that_fails_has_the_node_restored_and_the_next_time_waited_for() -> None:
    schedule = down()
    schedule.cluster.copies[FIRST].error = "quota exceeded"
    status = schedule.look()
    assert status.phase is Phase.WAITING_FOR_SNAPSHOT_CREATION, "the driver tries again"
    assert "quota exceeded" in status.status
    schedule.cluster.pass_time(minutes=60)
    schedule.look()
    assert is_restored(schedule)
    schedule.cluster.settle()
    status = schedule.look()
    assert status.last_snapshot is not None
    assert "quota exceeded" in status.last_snapshot.failed
    assert "did not become ready in time" in status.last_snapshot.failed
    assert FIRST not in schedule.cluster.copies  # what failed is cleaned up
    schedule.cluster.settle()
    schedule.look()
    assert schedule.cluster.made == [FIRST, "nightly-202601010110"]


@pytest.mark.criterion("H-C5")
def test_h_c5_an_error_that_passes_is_no_failure() -> None:
    schedule = down()
    schedule.cluster.copies[FIRST].error = "rate limited"
    assert "rate limited" in schedule.look().status
    schedule.cluster.copies[FIRST].error = None
    assert "rate limited" not in schedule.look().status
    schedule.cluster.copies[FIRST].ready = True
    status = schedule.look()
    assert status.last_snapshot is not None
    assert status.last_snapshot.failed == ""
    assert is_restored(schedule)


@pytest.mark.criterion("COSMOS-A6-7")
def test_a_snapshot_that_is_never_ready_has_the_node_restored() -> None:
    schedule = down()
    schedule.cluster.pass_time(seconds=3600)
    schedule.look()
    assert is_restored(schedule)
    assert schedule.status.last_snapshot is not None
    assert "did not become ready in time" in schedule.status.last_snapshot.failed


def test_a_snapshot_that_is_ready_counts_however_late_that_is_seen() -> None:
    schedule = down()
    ready(schedule)
    schedule.cluster.pass_time(days=2)
    schedule.look()
    assert schedule.status.last_snapshot is not None
    assert schedule.status.last_snapshot.failed == ""
    assert is_restored(schedule)


@pytest.mark.criterion("COSMOS-A6-7")
def test_a_snapshot_that_is_deleted_meanwhile() -> None:
    schedule = down()
    del schedule.cluster.copies[FIRST]
    schedule.look()
    assert is_restored(schedule)
    assert schedule.status.last_snapshot is not None
    assert "was deleted" in schedule.status.last_snapshot.failed


def test_a_snapshot_of_that_name_of_another_owner() -> None:
    schedule = begun()
    schedule.cluster.copies[FIRST] = Copy("somebody", BEGIN, ready=True)
    schedule.look()
    schedule.cluster.settle()
    schedule.look()
    assert is_restored(schedule)
    assert schedule.status.last_snapshot is not None
    assert "belongs to somebody" in schedule.status.last_snapshot.failed
    assert schedule.cluster.copies[FIRST].source == "somebody"


def test_what_the_server_refuses_is_given_up() -> None:
    schedule = begun()
    schedule.look()
    schedule.cluster.settle()
    schedule.write(schedule.decide())
    schedule.status = give_up(
        schedule.spec, schedule.status, schedule.facts(), "refused", schedule.cluster.now
    )
    schedule.look()
    assert is_restored(schedule)
    assert schedule.status.last_snapshot is not None
    assert schedule.status.last_snapshot.failed == "refused"


@pytest.mark.criterion("COSMOS-A6-12")
def test_a_node_that_does_not_come_back_is_no_longer_waited_for() -> None:
    schedule = down()
    ready(schedule)
    schedule.look()
    schedule.cluster.pass_time(seconds=1799)
    assert schedule.look().phase is Phase.WAITING_FOR_POD_RESTORATION
    schedule.cluster.pass_time(seconds=1)
    assert schedule.look().phase is not Phase.WAITING_FOR_POD_RESTORATION
    assert is_restored(schedule)


def test_a_node_that_cannot_be_given_back_within_the_deadline_is_reported_and_retried() -> None:
    schedule = reach(Phase.RESTORING_POD)
    schedule.cluster.pass_time(seconds=1799)
    assert not is_stuck(schedule.decide().status)
    schedule.cluster.pass_time(seconds=1)
    for _ in range(2):
        decided = schedule.decide()
        schedule.write(decided)
        assert decided.effects == (Restore((SET,)),)
        assert is_stuck(decided.status)
    schedule.look()
    schedule.look()
    assert not is_stuck(schedule.status)
    assert not schedule.cluster.down


# -- interruptions --------------------------------------------------------------------------------------


@pytest.mark.criterion("COSMOS-A6-8")
@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.MISSING_CRDS])
@pytest.mark.parametrize("cause", ["suspend", "delete", "CRDs vanish", "set gone", "node leaves"])
def test_whatever_ends_a_snapshot_early_the_node_comes_back(phase: Phase, cause: str) -> None:
    schedule = reach(phase)
    match cause:
        case "suspend":
            schedule.spec = schedule.spec.model_copy(update={"suspend": True})
        case "delete":
            schedule.deleting = True
        case "CRDs vanish":
            schedule.cluster.served = False
        case "set gone":
            schedule.cluster.exists = False
        case "node leaves":
            schedule.cluster.replicas = 0
    for _ in range(4):
        schedule.look()
        schedule.cluster.settle()
        schedule.cluster.pass_time(hours=1)
    if cause == "set gone":
        assert not schedule.held
    elif cause == "node leaves":
        assert is_restored(schedule) or phase is Phase.WAITING_FOR_SNAPSHOT_CREATION
    else:
        assert is_restored(schedule)
    if cause == "suspend":
        assert schedule.status.phase is Phase.SUSPENDED
    if cause == "CRDs vanish" and phase is not Phase.SUSPENDED:
        assert schedule.status.phase is Phase.MISSING_CRDS


def reach(phase: Phase) -> Schedule:
    """A schedule that is in a phase, as if whoever worked on it had died there."""
    match phase:
        case Phase.WAITING_FOR_NEXT:
            schedule = Schedule(Cluster(), spec())
            schedule.look()
        case Phase.SUSPENDED:
            schedule = Schedule(Cluster(), spec(suspend=True))
            schedule.look()
        case Phase.FINDING_CANDIDATE:
            schedule = begun()
            schedule.cluster.lagging = {f"{SET}-0"}
            schedule.look()
        case Phase.DELETING_POD:
            schedule = begun()
            schedule.write(schedule.decide())
            schedule.do(Hold())
        case Phase.WAITING_FOR_POD_DELETION:
            schedule = begun()
            schedule.look()
        case Phase.CREATING_SNAPSHOT:
            schedule = begun()
            schedule.look()
            schedule.cluster.settle()
            schedule.write(schedule.decide())
        case Phase.WAITING_FOR_SNAPSHOT_CREATION:
            schedule = down()
        case Phase.RESTORING_POD:
            schedule = down()
            ready(schedule)
            schedule.write(schedule.decide())
        case _:
            schedule = down()
            ready(schedule)
            schedule.look()
    assert schedule.status.phase is phase
    return schedule


def test_a_time_that_was_suspended_away_is_due_when_it_goes_on() -> None:
    schedule = begun()
    schedule.look()
    schedule.spec = spec(suspend=True)
    schedule.look()
    schedule.cluster.settle()
    assert schedule.look().phase is Phase.SUSPENDED
    assert schedule.look().last_snapshot is None
    schedule.spec = spec()
    assert schedule.look().scheduled_at == BEGIN + timedelta(minutes=10)


def test_a_snapshot_broken_off_by_suspend_is_no_copy() -> None:
    schedule = down()
    schedule.spec = spec(suspend=True)
    schedule.look()
    schedule.cluster.settle()
    schedule.look()
    assert schedule.status.last_snapshot is not None
    assert schedule.status.last_snapshot.failed == "suspended"
    assert schedule.cluster.copies == {}


@pytest.mark.criterion("D5-7")
def test_definitions_that_come_and_go() -> None:
    schedule = Schedule(Cluster(served=False), spec(deletePod=False))
    assert schedule.look().phase is Phase.MISSING_CRDS
    schedule.cluster.pass_time(hours=1)
    assert schedule.look().phase is Phase.MISSING_CRDS
    schedule.cluster.served = True
    assert schedule.look().phase is Phase.WAITING_FOR_SNAPSHOT_CREATION
    assert schedule.cluster.made == ["nightly-202601010100"]


def test_a_pause_without_a_record_is_lifted() -> None:
    schedule = down()
    schedule.status = type(schedule.status)()  # restored from a backup without its status
    schedule.look()
    assert is_restored(schedule)


def test_a_finalizer_removed_by_hand_is_added_again() -> None:
    schedule = down()
    schedule.held = False
    schedule.look()
    assert schedule.held
    ready(schedule)
    schedule.look()
    assert is_restored(schedule)


def test_a_node_allowed_to_come_back_makes_no_snapshot() -> None:
    schedule = down()
    schedule.cluster.status.scheduled_snapshot_status.clear()
    schedule.look()
    assert schedule.status.last_snapshot is not None
    assert schedule.status.last_snapshot.failed == f"{SET}-0 was let come back by another client"
    assert not schedule.held


def test_a_bad_schedule_is_said_and_waited_with() -> None:
    schedule = Schedule(Cluster(), spec(schedule="every day"))
    status = schedule.look()
    assert (status.phase, status.next_at) == (Phase.WAITING_FOR_NEXT, None)
    assert "has 2 fields" in status.status
    schedule.spec = spec()
    assert schedule.look().next_at == BEGIN + timedelta(minutes=10)


# -- retention ------------------------------------------------------------------------------------------


@pytest.mark.criterion("COSMOS-A6-5")
def test_only_complete_ones_count_and_only_ours_go() -> None:
    schedule = Schedule(Cluster(), spec(limit=2))
    copies = schedule.cluster.copies
    for day in range(4):
        copies[f"old-{day}"] = Copy("nightly", BEGIN - timedelta(days=9 - day), ready=True)
    copies["failed"] = Copy("nightly", BEGIN - timedelta(days=1), error="quota exceeded")
    copies["stuck"] = Copy("nightly", BEGIN - timedelta(days=1))
    copies["fresh"] = Copy("nightly", BEGIN - timedelta(minutes=5))
    copies["another's"] = Copy("somebody", BEGIN - timedelta(days=30), ready=True)
    schedule.look()
    assert set(copies) == {"old-2", "old-3", "fresh", "another's"}


def test_the_one_in_the_making_is_never_deleted() -> None:
    schedule = down(limit=1)
    schedule.cluster.copies["old"] = Copy("nightly", BEGIN, ready=True)
    schedule.cluster.pass_time(minutes=30)
    schedule.look()
    assert set(schedule.cluster.copies) == {"old", FIRST}
    ready(schedule)
    schedule.look()
    schedule.cluster.settle()
    schedule.cluster.lagging = {f"{SET}-1"}  # no further one for now
    schedule.look()
    assert schedule.status.last_snapshot is not None


def test_names_fit_whatever_the_schedule_is_called() -> None:
    long = "a" * 253
    schedule = Schedule(Cluster(), spec(deletePod=False), long)
    schedule.look()
    schedule.cluster.pass_time(minutes=10)
    schedule.look()
    assert len(schedule.cluster.made[0]) <= 253
    assert schedule.cluster.made[0].endswith("-202601010010")
