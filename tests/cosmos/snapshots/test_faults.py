"""Two schedules on one set of nodes, and a program that dies wherever it hurts: what always holds."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from apis.cosmos import PhaseDeadlines, ScheduledVolumeSnapshotStatus, SnapshotPhase
from internal.cosmos.snapshots.effects import Create, Effect
from internal.cosmos.snapshots.machine import IDLE, deadline
from internal.cosmos.snapshots.naming import pause_key
from tests.cosmos.snapshots.fake_cluster import NAMESPACE, SET, Cluster, Schedule, spec

WHICH = st.integers(0, 1)
NODE = st.integers(0, 2)
SELDOM = st.integers(0, 7).map(lambda number: number == 7)

ROUNDS = 40
"""Many times what two schedules need, one after the other; less than a minute, so that no time becomes due."""

CREATION = timedelta(seconds=PhaseDeadlines().snapshot_creation)


class Faults(RuleBasedStateMachine):
    """Steps of the program, of the cluster and of people, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.schedules = [
            Schedule(self.cluster, spec(schedule="*/10 * * * *", limit=2), "often"),
            Schedule(self.cluster, spec(schedule="*/15 * * * *", limit=1), "seldom"),
        ]
        for schedule in self.schedules:
            schedule.look()

    def work(self, schedule: Schedule, most: int | None = None) -> None:
        """One look, of which `most` writes and effects come to pass before the program dies."""
        if schedule.gone:
            schedule.forget()
            return
        decided = schedule.decide()
        parts: list[Effect | None] = [None, *decided.effects]
        for part in parts[:most]:
            if part is None:
                if not schedule.deleting:
                    schedule.write(decided)
            else:
                self.check_before(schedule, part)
                schedule.do(part)

    def check_before(self, schedule: Schedule, effect: Effect) -> None:
        if isinstance(effect, Create) and schedule.held:
            pod = schedule.status.candidate
            assert pod is not None
            assert pod.pod_name not in self.cluster.pods, "its disk is still written to"

    # -- the program ------------------------------------------------------------------------------

    @rule(which=WHICH, stages=st.sampled_from([8, 6, 5, 4, 3, 2]))
    def all_goes_well_for_a_while(self, which: int, stages: int) -> None:
        """The beginning of a round, or all of it."""
        schedule = self.schedules[which]
        for stage in range(stages):
            match stage:
                case 0:
                    self.cluster.lagging = set()
                    self.cluster.pass_time(minutes=15)
                case 2 | 6:
                    self.cluster.settle()
                case 4:
                    self.snapshots_become_ready()
                case _:
                    for _ in range(4):
                        self.work(schedule)

    @rule(which=WHICH)
    def goes_on(self, which: int) -> None:
        self.work(self.schedules[which])

    @rule(which=WHICH, most=st.integers(0, 2))
    def dies(self, which: int, most: int) -> None:
        self.work(self.schedules[which], most)

    @rule(which=WHICH)
    def does_the_same_twice(self, which: int) -> None:
        schedule = self.schedules[which]
        if schedule.gone or schedule.deleting:
            return
        decided = schedule.decide()
        schedule.write(decided)
        for effect in decided.effects * 2:
            self.check_before(schedule, effect)
            schedule.do(effect)

    # -- the cluster ------------------------------------------------------------------------------

    @rule(minutes=st.sampled_from([1, 5, 11, 61]))
    def time_passes(self, minutes: int) -> None:
        self.cluster.pass_time(minutes=minutes)

    @rule()
    def pods_end_and_come(self) -> None:
        self.cluster.settle()

    @rule(node=NODE)
    def node_falls_behind(self, node: int) -> None:
        self.cluster.lagging ^= {f"{SET}-{node}"}

    @rule()
    def snapshots_become_ready(self) -> None:
        for copy in self.cluster.copies.values():
            copy.ready = copy.error is None

    @rule()
    def snapshots_fail(self) -> None:
        for copy in self.cluster.copies.values():
            copy.error = None if copy.ready else "no space"

    @rule()
    def the_driver_recovers(self) -> None:
        for copy in self.cluster.copies.values():
            copy.error = None

    # -- people -----------------------------------------------------------------------------------

    @rule(which=WHICH, now=SELDOM)
    def suspend_or_go_on(self, which: int, now: bool) -> None:
        schedule = self.schedules[which]
        if not now and not schedule.spec.suspend:
            return
        schedule.spec = schedule.spec.model_copy(update={"suspend": not schedule.spec.suspend})

    @rule(now=SELDOM)
    def definitions_come_or_go(self, now: bool) -> None:
        if not now and self.cluster.served:
            return
        self.cluster.served = not self.cluster.served
        if (
            not self.cluster.served
        ):  # whoever takes the definitions takes every copy: it may be made again
            gone = set(self.cluster.copies)
            self.cluster.made = [name for name in self.cluster.made if name not in gone]
            self.cluster.copies.clear()

    @rule(which=WHICH, now=SELDOM)
    def a_status_is_lost(self, which: int, now: bool) -> None:
        """As by a restore from a backup. What is made anew counts from then."""
        if now:
            self.schedules[which].status = ScheduledVolumeSnapshotStatus()
            self.cluster.pass_time(minutes=1)

    @rule()
    def a_finalizer_is_taken_off(self) -> None:
        for schedule in self.schedules:
            schedule.held = schedule.held and schedule.deleting

    @rule(now=SELDOM)
    def nodes_leave_or_come(self, now: bool) -> None:
        if not now and self.cluster.replicas == 3:
            return
        self.cluster.replicas = 5 - self.cluster.replicas

    @rule(which=WHICH, now=SELDOM)
    def it_is_deleted(self, which: int, now: bool) -> None:
        if not now:
            return
        schedule = self.schedules[which]
        schedule.deleting = True
        schedule.gone = schedule.gone or not schedule.held

    # -- what always holds --------------------------------------------------------------------------

    @invariant()
    def at_most_one_node_is_down(self) -> None:
        assert len(self.cluster.down) <= 1

    @invariant()
    def a_time_has_one_snapshot(self) -> None:
        assert all(count == 1 for count in Counter(self.cluster.made).values())

    @invariant()
    def who_waits_has_no_node_down(self) -> None:
        for schedule in self.schedules:
            if schedule.status.phase in IDLE and not schedule.gone:
                assert pause_key(NAMESPACE, schedule.name) not in self.cluster.down

    def teardown(self) -> None:
        """Left alone, every schedule becomes idle: no node is down, and the next time is waited for.

        A copy whose driver has failed never becomes ready. Its node comes back and the copy goes at the
        deadlines, by when another snapshot may be due.
        """
        self.cluster.served, self.cluster.replicas, self.cluster.lagging = True, 3, set()
        for schedule in self.schedules:
            schedule.spec = schedule.spec.model_copy(update={"suspend": False})
        for _ in range(ROUNDS):
            self.cluster.settle()
            self.snapshots_become_ready()
            for schedule in self.schedules:
                schedule.forget() if schedule.gone else schedule.look()
            self.reach_deadlines_of_failed_copies()
            self.cluster.pass_time(seconds=1)
        assert self.cluster.down == {}
        for schedule in self.schedules:
            if not schedule.gone:
                assert schedule.status.phase is SnapshotPhase.WAITING_FOR_NEXT, schedule.status
                assert not schedule.held
                assert schedule.status.next_at is not None
                assert len(schedule.made_by_us()) <= schedule.spec.limit

    def reach_deadlines_of_failed_copies(self) -> None:
        """Let time pass until no schedule waits for, or keeps, what cannot become ready."""
        failed = {name: each for name, each in self.cluster.copies.items() if each.error}
        limits = [each.made_at + CREATION for each in failed.values()]
        for schedule in self.schedules:
            status = schedule.status
            waiting = status.phase is SnapshotPhase.WAITING_FOR_SNAPSHOT_CREATION
            if waiting and status.last_snapshot and status.last_snapshot.name in failed:
                limits.append(deadline(schedule.spec, status) or self.cluster.now)
        self.cluster.now = max([self.cluster.now, *limits])


TestFaults = Faults.TestCase
TestFaults.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def test_a_node_whose_snapshot_fails_for_good_is_restored_at_the_deadline() -> None:
    state = Faults()
    state.all_goes_well_for_a_while(which=0, stages=4)
    state.snapshots_fail()
    assert state.cluster.down != {}, "the snapshot is being made"
    state.teardown()


def test_a_failed_snapshot_that_no_status_names_is_deleted_at_the_deadline() -> None:
    state = Faults()
    state.all_goes_well_for_a_while(which=0, stages=8)
    state.all_goes_well_for_a_while(which=0, stages=5)
    state.all_goes_well_for_a_while(which=0, stages=8)
    state.a_status_is_lost(which=0, now=True)
    state.snapshots_fail()
    copies = state.schedules[0].made_by_us()
    assert len(copies) == 3, "one of them is no older than a driver may take"
    state.teardown()
