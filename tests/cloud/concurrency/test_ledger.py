"""The ledger: limits, turns, exclusion, and what it tells."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest

from apis.cloud import TaskPriority, Waiting, WaitingReason
from internal.cloud.concurrency import Claim, ConcurrencyLimiter, Denial, Granted
from internal.cloud.concurrency.limiter import LEAD
from internal.cloud.runs import RunOwner
from internal.cloud.tasks.task import Concurrency

NOON = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
HIGH, LOW = TaskPriority.HIGH, TaskPriority.LOW
KINDS = {"terraform": "InstanceTerraform", "kubernetes": "InstanceKubernetes"}


@dataclass
class Bench:
    """A ledger, its clock and who was woken."""

    now: datetime = NOON
    woken: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.ledger = ConcurrencyLimiter(
            lambda: self.now, lambda owner: self.woken.append(owner.uid)
        )

    def claim(
        self,
        instance: str,
        task: str = "terraform",
        *,
        limit: int = 2,
        rate: int = 0,
        exclusive: bool = True,
        since: datetime | None = None,
        priority: TaskPriority = TaskPriority.NORMAL,
    ) -> Claim:
        owner = RunOwner(
            api_version="cloud.ctrlruntime.dev/v1",
            kind=KINDS.get(task, task),
            namespace="default",
            name=instance,
            uid=f"{task}-{instance}",
        )
        concurrency = Concurrency(limit=limit, starts_per_minute=rate, exclusive=exclusive)
        return Claim(
            task=task,
            owner=owner,
            instance=instance,
            since=since or self.now,
            concurrency=concurrency,
            priority=priority,
        )

    def granted(self, claim: Claim) -> bool:
        return isinstance(self.ledger.acquire(claim), Granted)

    def denied(self, claim: Claim) -> Waiting:
        verdict = self.ledger.acquire(claim)
        assert isinstance(verdict, Denial)
        return verdict.waiting

    def pass_by(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def called(self) -> list[str]:
        """Who was woken since the last call."""
        called, self.woken[:] = list(self.woken), []
        return called


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.criterion("SG-40")
def test_a_type_has_so_many_places(bench: Bench) -> None:
    assert bench.granted(bench.claim("a"))
    assert bench.granted(bench.claim("b"))
    assert not bench.granted(bench.claim("c"))
    assert bench.granted(bench.claim("a")), "asking again while granted is granted"
    assert bench.granted(bench.claim("d", "kubernetes")), "other types have places of their own"
    assert bench.ledger.running("terraform") == 2


def test_zero_is_without_limit(bench: Bench) -> None:
    assert all(bench.granted(bench.claim(str(n), limit=0)) for n in range(100))


@pytest.mark.criterion("SG-41")
def test_exclusive_tasks_of_one_instance_take_turns_whatever_their_type(bench: Bench) -> None:
    upgrade, apply = bench.claim("a", "UpgradeInstanceTask"), bench.claim("a", "kubernetes")
    assert bench.granted(upgrade)
    waiting = bench.denied(apply)
    assert waiting.reason is WaitingReason.INSTANCE_BUSY
    assert waiting.holder == "UpgradeInstanceTask/a"
    assert bench.granted(bench.claim("a", "invariants", exclusive=False))
    bench.ledger.release(upgrade.owner)
    assert bench.called() == [apply.owner.uid]
    assert bench.granted(apply)


@pytest.mark.criterion("SG-41")
def test_instances_of_one_name_in_two_namespaces_are_two(bench: Bench) -> None:
    first = bench.claim("a")
    other = replace(first, owner=replace(first.owner, namespace="other", uid="other"))
    assert bench.granted(first)
    assert bench.granted(other)


@pytest.mark.criterion("SG-42")
def test_a_place_is_free_again_after_release_and_after_deletion(bench: Bench) -> None:
    first, second, third = (bench.claim(name, limit=1) for name in "abc")
    assert bench.granted(first)
    assert bench.denied(second).holder == "InstanceTerraform/a"
    assert not bench.granted(third)
    bench.ledger.forget(first.owner.uid)
    assert bench.called() == [second.owner.uid]
    bench.ledger.forget(second.owner.uid)
    assert bench.called() == [third.owner.uid], "who goes while it waits lets the next one come"
    assert bench.granted(third)


@pytest.mark.criterion("SG-44")
def test_first_come_first_served(bench: Bench) -> None:
    holder = bench.claim("x", limit=1)
    assert bench.granted(holder)
    order = ["b", "a", "d", "c"]
    claims = {}
    for name in order:
        bench.pass_by(1)
        claims[name] = bench.claim(name, limit=1)
        bench.denied(claims[name])
    for name in order:
        bench.ledger.release(holder.owner)
        assert bench.called() == [claims[name].owner.uid]
        late = bench.claim("late", limit=1)
        assert not bench.granted(late), "its place is kept until it comes"
        assert bench.granted(claims[name])
        holder = claims[name]


@pytest.mark.criterion("SG-44")
def test_a_place_in_the_queue_survives_by_what_was_recorded(bench: Bench) -> None:
    assert bench.granted(bench.claim("x", limit=1))
    bench.denied(bench.claim("new", limit=1))
    old = bench.claim("old", limit=1, since=NOON - timedelta(minutes=5))
    assert bench.denied(old).position == 1
    assert bench.denied(bench.claim("new", limit=1)).position == 2
    bench.pass_by(10)
    again = bench.denied(bench.claim("new", limit=1))
    assert again.since == NOON, "asking again does not lose the place"


@pytest.mark.criterion("SG-44")
def test_who_waits_for_a_busy_instance_is_passed_and_not_starved(bench: Bench) -> None:
    busy = bench.claim("a", "kubernetes")
    assert bench.granted(busy)
    blocked = bench.claim("a", limit=1)
    assert bench.denied(blocked).reason is WaitingReason.INSTANCE_BUSY
    bench.pass_by(1)
    second = bench.claim("b", limit=1)
    assert bench.granted(second), "it does not keep others from starting"
    bench.ledger.release(busy.owner)
    assert bench.denied(blocked).reason is WaitingReason.LIMIT
    bench.pass_by(1)
    assert not bench.granted(bench.claim("c", limit=1))
    newcomer = bench.claim("a", "kubernetes")
    assert not bench.granted(newcomer), "nor is it passed by its own instance"
    bench.called()
    bench.ledger.release(second.owner)
    assert bench.called() == [blocked.owner.uid]
    assert bench.granted(blocked)


def test_who_does_not_come_when_called_is_passed_for_now(bench: Bench) -> None:
    holder, absent, present = (bench.claim(name, limit=1) for name in "abc")
    assert bench.granted(holder)
    bench.denied(absent)
    bench.pass_by(1)
    bench.denied(present)
    bench.ledger.release(holder.owner)
    assert not bench.granted(present)
    bench.pass_by(61)
    assert bench.granted(present)
    bench.ledger.release(present.owner)
    assert bench.granted(absent)


def test_so_many_start_in_a_minute(bench: Bench) -> None:
    claims = [bench.claim(name, limit=0, rate=2) for name in "abcde"]
    assert bench.granted(claims[0])
    bench.pass_by(10)
    assert bench.granted(claims[1])
    again = []
    for claim in claims[2:]:
        verdict = bench.ledger.acquire(claim)
        assert isinstance(verdict, Denial)
        assert verdict.waiting.reason is WaitingReason.RATE
        assert verdict.waiting.limit == 2
        again.append(verdict.again)
    assert again == [50.0, 60.0, 110.0]
    bench.pass_by(50)
    assert [bench.granted(claim) for claim in claims[2:]] == [True, False, False]
    bench.pass_by(10)
    assert [bench.granted(claim) for claim in claims[3:]] == [True, False]


def test_what_waits_is_reported_limit_position_holder_since_and_estimate(bench: Bench) -> None:
    first, second = bench.claim("a"), bench.claim("b")
    assert bench.granted(first)
    bench.pass_by(5)
    assert bench.granted(second)
    waiting = bench.denied(bench.claim("c"))
    assert waiting == Waiting(
        reason=WaitingReason.LIMIT,
        limit=2,
        position=1,
        holder="InstanceTerraform/a",
        since=bench.now,
        estimate=None,
    )
    bench.pass_by(95)
    bench.ledger.release(first.owner)
    assert bench.granted(bench.claim("c"))
    waiting = bench.denied(bench.claim("d"))
    assert (waiting.holder, waiting.estimate) == ("InstanceTerraform/b", timedelta(seconds=50))
    busy = bench.denied(bench.claim("b", "kubernetes"))
    assert busy.estimate == timedelta(seconds=5), "100 s usually, 95 of them have passed"


@pytest.mark.criterion("SG-42")
def test_after_a_crash_those_recorded_hold_their_places_in_their_order(bench: Bench) -> None:
    running = bench.claim("running")
    bench.ledger.learn(running, since=NOON - timedelta(minutes=3), sure=True)
    creating = bench.claim("creating")
    bench.ledger.learn(creating, since=NOON - timedelta(minutes=2), sure=False)
    bench.ledger.queue(bench.claim("second", since=NOON - timedelta(seconds=10)))
    bench.ledger.queue(bench.claim("first", since=NOON - timedelta(seconds=20)))
    assert not bench.granted(bench.claim("new"))
    assert bench.granted(creating), "it had its place"
    bench.ledger.release(running.owner)
    assert bench.denied(bench.claim("second")).position == 2
    assert bench.granted(bench.claim("first"))


@pytest.mark.criterion("SG-43")
def test_a_place_on_record_is_not_given_to_who_waited_longer(bench: Bench) -> None:
    """Its start may be on its way still, sent by a manager that is dead by now."""
    elder = bench.claim("elder", limit=1, since=NOON - timedelta(minutes=9))
    bench.ledger.queue(elder)  # it was passed while its instance was busy
    younger = bench.claim("younger", limit=1)
    bench.ledger.learn(younger, since=NOON - timedelta(minutes=1), sure=False)
    assert bench.granted(younger)
    assert not bench.granted(elder)
    bench.ledger.release(younger.owner)
    assert bench.granted(elder)


@pytest.mark.criterion("SG-43")
def test_a_place_recorded_beyond_the_limit_gives_way(bench: Bench) -> None:
    """The write of the last leader that arrives after its successor has read everything."""
    for name in "ab":
        assert bench.granted(bench.claim(name))
    late = bench.claim("late")
    assert bench.ledger.learn(late, since=bench.now, sure=False)
    assert not bench.granted(late)
    assert bench.ledger.running("terraform") == 2
    bench.ledger.release(bench.claim("a").owner)
    assert bench.granted(late)


def test_a_run_found_under_way_counts_whatever_the_limit(bench: Bench) -> None:
    for name in "abc":
        bench.ledger.hold(bench.claim(name))
    assert bench.ledger.running("terraform") == 3
    bench.ledger.release(bench.claim("a").owner)
    assert not bench.granted(bench.claim("d"))
    bench.ledger.release(bench.claim("b").owner)
    assert bench.granted(bench.claim("d"))


def test_nothing_is_kept_of_what_is_over(bench: Bench) -> None:
    for number in range(50):
        claim = bench.claim(str(number))
        bench.ledger.acquire(claim)
        bench.ledger.forget(claim.owner.uid)
    kept = bench.ledger
    assert (kept._holders, kept._waiters, kept._instances) == ({}, {}, {})
    assert bench.ledger.waiting("terraform") == 0


@pytest.mark.criterion("CP-OVERTAKE")
def test_a_high_priority_overtakes_what_waits_and_interrupts_nothing(bench: Bench) -> None:
    holder = bench.claim("x", limit=1)
    assert bench.granted(holder)
    for name in ("a", "b"):
        bench.denied(bench.claim(name, limit=1))
        bench.pass_by(60)
    patch = bench.claim("patch", limit=1, priority=HIGH)
    waiting = bench.denied(patch)
    assert (waiting.position, waiting.priority, waiting.holder) == (1, HIGH, "InstanceTerraform/x")
    assert bench.ledger.holds(holder.owner.uid)
    background = bench.denied(bench.claim("background", limit=1, priority=LOW))
    assert (background.position, background.priority) == (4, LOW)
    normal = bench.denied(bench.claim("a", limit=1))
    assert (normal.position, normal.priority) == (2, None)
    order = []
    for _ in range(4):
        bench.called()
        bench.ledger.release(holder.owner)
        (uid,) = bench.called()
        order.append(uid.removeprefix("terraform-"))
        holder = bench.ledger._waiters[uid].claim
        assert bench.granted(holder)
    assert order == ["patch", "a", "b", "background"]


@pytest.mark.criterion("CP-OVERTAKE")
def test_a_high_priority_also_comes_first_where_starts_are_limited(bench: Bench) -> None:
    assert bench.granted(bench.claim("x", limit=0, rate=1))
    bench.denied(bench.claim("a", limit=0, rate=1))
    patch = bench.claim("patch", limit=0, rate=1, priority=HIGH)
    verdict = bench.ledger.acquire(patch)
    assert isinstance(verdict, Denial)
    assert (verdict.again, verdict.waiting.position) == (60.0, 1)
    bench.pass_by(60)
    assert not bench.granted(bench.claim("a", limit=0, rate=1))
    assert bench.granted(patch)


@pytest.mark.criterion("CP-STARVE")
def test_what_has_waited_a_day_longer_is_overtaken_no_more(bench: Bench) -> None:
    holder = bench.claim("x", limit=1)
    assert bench.granted(holder)
    old = bench.claim("old", limit=1)
    bench.denied(old)
    bench.pass_by(LEAD - 1)
    assert bench.denied(bench.claim("first-patch", limit=1, priority=HIGH)).position == 1
    bench.pass_by(2)
    assert bench.denied(bench.claim("second-patch", limit=1, priority=HIGH)).position == 3
    assert bench.denied(old).position == 2


@pytest.mark.criterion("CP-INSTANCE")
def test_a_patch_goes_before_what_waits_of_its_own_instance(bench: Bench) -> None:
    running = bench.claim("a", "kubernetes")
    assert bench.granted(running)
    look = bench.claim("a", "invariants")
    bench.denied(look)
    bench.pass_by(5)
    upgrade = bench.claim("a", "upgrade", priority=HIGH)
    assert bench.denied(upgrade).reason is WaitingReason.INSTANCE_BUSY
    assert not bench.called()
    bench.ledger.release(running.owner)
    assert bench.called() == [upgrade.owner.uid]
    assert bench.denied(look).holder == "upgrade/a"
    assert bench.granted(upgrade)
    bench.ledger.release(upgrade.owner)
    assert bench.granted(look)


@pytest.mark.criterion("CP-CHANGE")
def test_a_priority_that_changes_while_it_waits_moves_it_and_calls_who_is_next(
    bench: Bench,
) -> None:
    holder = bench.claim("x", limit=1)
    assert bench.granted(holder)
    bench.denied(bench.claim("a", limit=1))
    bench.pass_by(10)
    raised = bench.claim("b", limit=1)
    assert bench.denied(raised).position == 2
    raised = replace(raised, priority=HIGH)
    assert bench.denied(raised).position == 1
    bench.ledger.release(holder.owner)
    assert bench.called() == [raised.owner.uid]
    lowered = bench.denied(replace(raised, priority=LOW))
    assert (lowered.position, lowered.since) == (2, NOON + timedelta(seconds=10))
    assert bench.called() == ["terraform-a"], "the place would stay empty otherwise"
    assert bench.granted(bench.claim("a", limit=1))


def test_a_wait_since_the_beginning_of_time_has_a_place(bench: Bench) -> None:
    assert bench.granted(bench.claim("x", limit=1))
    first = bench.claim("a", limit=1, since=datetime.min.replace(tzinfo=UTC), priority=HIGH)
    assert bench.denied(first).position == 1
