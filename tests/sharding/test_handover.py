"""One member's part in a hand-over, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from ctrlruntime.sharding.assignment import Announced, Assignment, reassigned
from ctrlruntime.sharding.handover import EpochWentBack, HandOver, Work
from ctrlruntime.sharding.members import (
    LABEL_VERSION,
    MemberLease,
    Members,
    announcement,
    read_announcement,
)
from ctrlruntime.sharding.planner import Planner, SlotsTaken, Undecided, claim
from ctrlruntime.sharding.report import SlotReport
from ctrlruntime.sharding.slots import ALL_SLOTS, SLOTS

LEASE = 15.0
NONE = frozenset[int]()


@dataclass(slots=True)
class Seen:
    """What a member sees of the others."""

    members: Members = field(default_factory=lambda: Members(LEASE))
    versions: int = 0

    def beat(
        self, name: str, now: float, announced: Announced | None = None, *, holder: str = "p1"
    ) -> None:
        """A member renews its Lease; without a holder it releases it."""
        self.put(
            MemberLease(name=name, version=0, holder=holder, announced=announced or Announced()),
            now,
        )

    def put(self, lease: MemberLease, now: float) -> None:
        """Note a Lease as the newest."""
        self.versions += 1
        self.members.see(replace(lease, version=self.versions), now)


def given_to(owner: str, before: Assignment | None = None) -> Assignment:
    return reassigned(before, dict.fromkeys(ALL_SLOTS, owner), {})


A = given_to("a")
B = given_to("b", A)
"""Epoch 2: all slots go from a to b."""


def taken(member: HandOver, seen: Seen, now: float) -> Work:
    """List what is to be taken, and return what follows."""
    member.taken(member.work(seen.members, now).take)
    return member.work(seen.members, now)


def test_slots_without_a_former_owner_are_held_once_they_are_listed() -> None:
    a, seen = HandOver("a"), Seen()
    a.observe(A)
    assert a.work(seen.members, 0.0) == Work(take=ALL_SLOTS)
    assert a.work(seen.members, 0.0) == Work()
    assert (a.held, a.writable) == (NONE, NONE)
    a.taken(ALL_SLOTS)
    assert a.work(seen.members, 0.0) == Work(begin=ALL_SLOTS)
    assert (a.held, a.announced) == (ALL_SLOTS, Announced(1, ALL_SLOTS))


def test_passes_that_run_may_write_until_the_slots_are_let_go_and_none_begins() -> None:
    a, seen = HandOver("a"), Seen()
    a.observe(A)
    taken(a, seen, 0.0)
    a.observe(B)
    assert a.work(seen.members, 0.0) == Work(release=ALL_SLOTS)
    assert (a.held, a.writable, a.announced) == (NONE, ALL_SLOTS, Announced(2, ALL_SLOTS))
    a.released(ALL_SLOTS)
    assert (a.writable, a.announced) == (NONE, Announced(2))


@pytest.mark.criterion("SH-3")
@pytest.mark.parametrize(
    ("announced", "begins"),
    [
        (Announced(1, ALL_SLOTS), NONE),
        (Announced(1), NONE),
        (Announced(2, ALL_SLOTS), NONE),
        (Announced(2, ALL_SLOTS - {7}), frozenset({7})),
        (Announced(2), ALL_SLOTS),
        (Announced(9), ALL_SLOTS),
    ],
)
def test_work_begins_with_what_the_former_owner_has_let_go_in_that_epoch(
    announced: Announced, begins: frozenset[int]
) -> None:
    b, seen = HandOver("b"), Seen()
    seen.beat("a", 0.0, announced)
    b.observe(B)
    assert taken(b, seen, 0.0).begin == begins


@pytest.mark.criterion("SH-3", "SH-4")
@pytest.mark.parametrize("released", [True, False], ids=["stopped", "killed"])
def test_a_lease_that_is_over_counts_once_it_was_read_after_the_assignment(released: bool) -> None:
    b, seen = HandOver("b"), Seen()
    seen.beat("a", 0.0, Announced(1, ALL_SLOTS), holder="" if released else "p1")
    b.observe(B)
    assert taken(b, seen, LEASE) == (Work(confirm=frozenset("a")) if released else Work())
    assert b.work(seen.members, LEASE + 0.1) == Work(confirm=frozenset("a"))
    b.confirm("a", b.epoch, seen.members, LEASE + 0.2)
    assert b.work(seen.members, LEASE + 0.2) == Work(begin=ALL_SLOTS)


@pytest.mark.criterion("SH-3")
def test_one_that_took_its_lease_up_again_keeps_what_it_does_not_let_go() -> None:
    b, seen = HandOver("b"), Seen()
    seen.beat("a", 0.0, Announced(1, ALL_SLOTS))
    b.observe(B)
    assert taken(b, seen, 16.0).confirm
    seen.beat("a", 16.1, holder="p2")
    b.confirm("a", b.epoch, seen.members, 16.1)
    assert b.work(seen.members, 16.1) == Work()


@pytest.mark.criterion("SH-3")
def test_a_lease_that_was_over_before_the_assignment_is_read_again() -> None:
    b, seen = HandOver("b"), Seen()
    seen.beat("a", 0.0, holder="")
    b.observe(A)
    b.confirm("a", b.epoch, seen.members, 1.0)
    b.observe(B)
    assert taken(b, seen, 2.0).confirm == {"a"}


@pytest.mark.criterion("SH-3")
def test_a_lease_that_was_deleted_ends_after_its_duration_only() -> None:
    b, seen = HandOver("b"), Seen()
    b.observe(B)
    seen.members.miss("a", 5.0)
    assert taken(b, seen, 5.0 + LEASE) == Work()
    assert b.work(seen.members, 5.1 + LEASE) == Work(confirm=frozenset("a"))


def test_a_slot_that_goes_elsewhere_before_it_was_held_is_dropped() -> None:
    b, seen = HandOver("b"), Seen()
    seen.beat("a", 0.0)
    b.observe(B)
    taken(b, seen, 0.0)
    b.observe(given_to("c", B))
    assert b.work(seen.members, 0.0) == Work(release=ALL_SLOTS)
    assert b.writable == NONE


def test_a_slot_that_comes_back_while_it_is_let_go_is_taken_afterwards() -> None:
    a, seen = HandOver("a"), Seen()
    a.observe(A)
    taken(a, seen, 0.0)
    a.observe(B)
    assert a.work(seen.members, 0.0).release == ALL_SLOTS
    a.observe(given_to("a", B))
    assert a.work(seen.members, 0.0) == Work()
    a.released(ALL_SLOTS)
    assert a.work(seen.members, 0.0) == Work(take=ALL_SLOTS)


@pytest.mark.criterion("SH-7")
def test_a_member_that_has_seen_a_higher_epoch_ends() -> None:
    a = HandOver("a")
    a.observe(B)
    a.observe(B)
    with pytest.raises(
        EpochWentBack, match="epoch 1, and this process has seen 2: the server was restored"
    ):
        a.observe(A)


# What members announce, and the leader's plan


def test_what_a_member_announces_is_read_as_the_same() -> None:
    announced = Announced(7, frozenset({1, 2, 9}))
    fixed = frozenset({1, 2})
    assert read_announcement(announcement(announced, fixed)) == (
        announced,
        fixed,
        SLOTS,
        LABEL_VERSION,
    )
    assert read_announcement(announcement(announced))[1] is None


@pytest.mark.criterion("SH-8")
@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", 1),
        ("x", 1),
        ("[]", 1),
        ("{}", 1),
        ('{"epoch":3,"held":"0-127","slots":128,"label":1}', 1),
        ('{"epoch":3,"slots":64,"label":2}', 1),
        ('{"epoch":3,"slots":64,"label":1}', 2),
        ('{"epoch":3,"slots":32,"label":1}', 1),
        ('{"x":' + "[" * 100_000 + "]" * 100_000 + "}", 1),
    ],
)
def test_members_that_mean_something_else_by_a_slot_get_none(text: str, rule: int) -> None:
    announced, fixed, slots, label = read_announcement(text)
    seen = Seen()
    odd = MemberLease(
        name="odd",
        version=0,
        holder="p",
        announced=announced,
        fixed=fixed,
        slots=slots,
        label_version=label,
    )
    seen.put(odd, 0.0)
    seen.put(replace(odd, name="a", slots=SLOTS, label_version=rule, fixed=None), 0.0)
    planned = Planner(settle=0.0, rule=rule).plan(None, seen.members, 0.0)
    assert planned is not None
    assert planned.owned("a") == ALL_SLOTS
    assert planned.slots[0].former == {"odd"}, "it may be at work by rules of its own"


def test_members_that_start_together_move_slots_once() -> None:
    seen, planner = Seen(), Planner(settle=2.0)
    seen.beat("a", 0.0)
    assert planner.plan(None, seen.members, 0.0) is None
    seen.beat("b", 1.0)
    assert planner.plan(None, seen.members, 1.9) is None
    first = planner.plan(None, seen.members, 3.9)
    assert first is not None
    assert (len(first.owned("a")), len(first.owned("b"))) == (32, 32)
    assert planner.plan(first, seen.members, 3.9) is None


@pytest.mark.criterion("SH-4")
@pytest.mark.parametrize("released", [True, False], ids=["stopped", "killed"])
def test_slots_of_a_member_that_is_gone_go_to_the_others(released: bool) -> None:
    seen, planner = Seen(), Planner(settle=0.0)
    for name in "abc":
        seen.beat(name, 0.0)
    before = planner.plan(None, seen.members, 0.0)
    for name in "ab":
        seen.beat(name, 14.0)
    if released:
        seen.beat("c", 14.0, holder="")
    assert before is not None
    assert (planner.plan(before, seen.members, 14.9) is not None) is released
    after = planner.plan(before, seen.members, 15.1)
    assert after is not None
    assert after.owned("c") == NONE
    assert after.owned("a") > before.owned("a")


@pytest.mark.criterion("SH-41")
def test_a_name_without_a_lease_gets_no_share() -> None:
    """A person gave it one slot: it keeps that for as long as a deleted Lease may be at work, and gets no other."""
    seen = Seen()
    seen.beat("a", 0.0)
    seen.members.miss("ghost", 0.0)
    planned = Planner(settle=0.0).plan(reassigned(A, {0: "ghost"}, {}), seen.members, 1.0)
    assert planned is None or planned.owned("ghost") <= {0}


def test_the_former_owners_of_a_slot_that_is_held_are_forgotten() -> None:
    """As the leader forgets them: their Leases are deleted once no slot names them."""
    b, seen = HandOver("b"), Seen()
    seen.beat("a", 0.0, Announced(2))
    b.observe(B)
    assert taken(b, seen, 0.0).begin == b.held == ALL_SLOTS
    b.observe(replace(B, slots=tuple(replace(each, former=frozenset()) for each in B.slots)))
    assert b.assignment.names == {"b"}


def test_without_members_slots_stay_with_the_last_ones() -> None:
    seen, planner = Seen(), Planner(settle=0.0)
    seen.beat("a", 0.0, Announced(1, ALL_SLOTS))
    assert planner.plan(A, seen.members, 99.0) is None


# Fixed slots

LOW, HIGH, MIDDLE = frozenset(range(32)), frozenset(range(32, 64)), frozenset(range(16, 48))


@pytest.mark.criterion("SH-2")
def test_fixed_slots_that_are_another_members_are_refused() -> None:
    seen = Seen()
    low = claim(None, "low", LOW, seen.members, 0.0)
    assert low is not None
    assert (low.owned("low"), low.slots[40].owner) == (LOW, "")
    both = claim(low, "high", HIGH, seen.members, 0.0)
    assert both is not None
    assert (both.owned("low"), both.owned("high")) == (LOW, HIGH)
    assert claim(both, "high", HIGH, seen.members, 0.0) is None
    seen.beat("low", 0.0)
    with pytest.raises(Undecided, match="low"):
        claim(low, "middle", MIDDLE, seen.members, 1.0)
    seen.beat("low", 2.0)
    with pytest.raises(SlotsTaken) as refused:
        claim(low, "middle", MIDDLE, seen.members, 2.0)
    assert str(refused.value) == (
        "slots 16-47 overlap with those of a member at work: 16-31 by low (held by p1). "
        "Start this process with slots 32-47, or stop the other one first"
    )
    after = claim(low, "middle", MIDDLE, seen.members, 2.1 + LEASE)
    assert after is not None
    assert after.owned("middle") == MIDDLE
    assert after.slots[20].former == {"low"}


@pytest.mark.criterion("SH-2")
def test_the_leader_leaves_the_slots_of_fixed_members_alone() -> None:
    seen, planner = Seen(), Planner(settle=0.0)
    before = claim(None, "low", LOW, seen.members, 0.0)
    seen.put(MemberLease(name="low", version=0, holder="p", fixed=LOW), 0.0)
    seen.beat("a", 0.0)
    seen.beat("b", 0.0)
    after = planner.plan(before, seen.members, 1.0)
    assert after is not None
    assert after.owned("low") == LOW
    assert (len(after.owned("a")), len(after.owned("b"))) == (16, 16)
    seen.beat("a", 15.0)
    gone = planner.plan(after, seen.members, 15.1)
    assert gone is not None
    assert gone.owned("a") == ALL_SLOTS


# What is shown


@pytest.mark.criterion("SH-5")
def test_slots_without_an_owner_are_named_with_since_when() -> None:
    seen, report = Seen(), SlotReport()
    seen.beat("a", 0.0, Announced(1, ALL_SLOTS))
    whole = report.update(A, seen.members, 0.0)
    assert (whole.is_whole, whole.message) == (True, "64 slots are with 1 members")
    seen.beat("b", 15.0, Announced(2, ALL_SLOTS - LOW))
    assert report.update(B, seen.members, 15.5).oldest == 0.0
    found = report.update(B, seen.members, 25.5)
    assert found.oldest == 10.0
    assert found.message == "slots 0-31 have had no owner for 10 s: b has not taken them"
    seen.beat("b", 26.0, Announced(2, ALL_SLOTS))
    assert report.update(B, seen.members, 26.0).is_whole


@pytest.mark.criterion("SH-5")
@pytest.mark.parametrize("epoch", [1, 2], ids=["a silent watch", "a pass without end"])
def test_one_at_work_that_lets_no_slots_go_is_named_after_a_minute(epoch: int) -> None:
    seen, report = Seen(), SlotReport()
    for now in (0.0, 14.0, 28.0, 42.0, 59.0):
        seen.beat("a", now, Announced(epoch, ALL_SLOTS))
        assert report.update(B, seen.members, now).is_whole
    found = report.update(B, seen.members, 60.0)
    assert found.message == (
        "a has kept slots 0-63 for 60 s after they were assigned to others: it renews its Lease and does not let them go; "
        "restart it"
    )
