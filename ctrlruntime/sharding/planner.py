"""Who is to own what: the leader's plan for all members, and the claim of a member with fixed slots. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ctrlruntime.sharding.assignment import Assignment, distribute, reassigned
from ctrlruntime.sharding.members import LABEL_VERSION, MemberLease, Members
from ctrlruntime.sharding.slots import ALL_SLOTS, format_slots

LONGEST: Final = 5
"""How many times as long as members settle one waits beside others that go on coming."""


class SlotsTaken(RuntimeError):
    """Slots that this process was started with are another's, which is at work."""


@dataclass(slots=True)
class Planner:
    """The leader's. ``settle``: seconds after the last one came for which new members wait, so that those that start together move slots once."""

    settle: float = 2.0
    rule: int = LABEL_VERSION
    """That of members which own slots."""
    _first: dict[str, float] = field(default_factory=dict)
    """When each member that is to have slots was seen first."""

    def plan(
        self,
        before: Assignment | None,
        members: Members,
        now: float,
        *,
        seen: Assignment | None = None,
    ) -> Assignment | None:
        """Return the assignment to write; None where that is the present one, or nothing can be assigned yet.

        ``seen``: the one that this process has seen last, which counts where the object is gone.
        """
        alive = members.alive(now)
        seen = before or seen or Assignment()
        owners = seen.owners
        dynamic = {
            name
            for name, each in alive.items()
            if each.version and each.is_compatible(self.rule) and each.fixed is None
        }
        self._first = {name: self._first.get(name, now) for name in dynamic}
        ready = dynamic & {*owners.values()}
        waited = [now - self._first[name] for name in dynamic - ready]
        if waited and (min(waited) >= self.settle or max(waited) >= LONGEST * self.settle):
            ready = dynamic
        fixed = {
            slot: owner
            for slot, owner in owners.items()
            if owner in alive and alive[owner].fixed is not None
        }
        if before is None and not ready:
            return None
        planned = distribute(owners, ready, ALL_SLOTS - fixed.keys())
        if not ready:  # their Leases are over: what they had stays theirs until there is another
            planned = owners
        after = reassigned(before, {**planned, **fixed}, members.announced, seen=seen.epoch)
        return None if after is before else after


class Undecided(RuntimeError):
    """Whether another member with the same slots is at work shows within the duration of its Lease."""


def claim(
    before: Assignment | None,
    name: str,
    slots: frozenset[int],
    members: Members,
    now: float,
    *,
    seen: int = 0,
) -> Assignment | None:
    """Return the assignment in which a member has its fixed slots, and no other; None where it has them.

    Raises SlotsTaken for slots of another member at work, Undecided while that is not known.
    """
    owners = {} if before is None else before.owners
    taken = {
        slot: owner
        for slot, owner in owners.items()
        if slot in slots and owner != name and not members.is_over(owner, now)
    }
    if any(members.is_at_work(owner, now) for owner in taken.values()):
        raise SlotsTaken(_refusal(slots, taken, members))
    if taken:
        raise Undecided(", ".join(sorted({*taken.values()})))
    kept = {slot: owner for slot, owner in owners.items() if owner != name}
    mine = dict.fromkeys(slots, name)
    after = reassigned(before, {**kept, **mine}, members.announced, seen=seen)
    return None if after is before else after


def _refusal(slots: frozenset[int], taken: dict[int, str], members: Members) -> str:
    others = "; ".join(
        f"{format_slots([slot for slot, owner in taken.items() if owner == each])} by {each}{_at(members.get(each))}"
        for each in sorted({*taken.values()})
    )
    free = slots - taken.keys()
    instead = f"slots {format_slots(free)}" if free else "other slots"
    return (
        f"slots {format_slots(slots)} overlap with those of a member at work: {others}. "
        f"Start this process with {instead}, or stop the other one first"
    )


def _at(lease: MemberLease | None) -> str:
    return f" (held by {lease.holder})" if lease is not None and lease.holder else ""
