"""Which slots have no owner, since when, and who does not acknowledge a hand-over. Pure, with a clock passed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ctrlruntime.sharding.assignment import Assignment, has_acknowledged
from ctrlruntime.sharding.members import Members
from ctrlruntime.sharding.slots import ALL_SLOTS, format_slots

ACKNOWLEDGE_WITHIN: Final = 60.0
"""Seconds after which a member is reported that is at work, and keeps slots that were assigned to others."""


@dataclass(frozen=True, slots=True)
class Unowned:
    """Slots on which no member works."""

    slots: frozenset[int]
    owner: str
    """Whom they are assigned to; empty where there is no member."""
    seconds: float
    """For how long, of the one that is longest without an owner."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Slots that a member at work keeps though they were assigned to others."""

    slots: frozenset[int]
    member: str
    seconds: float


@dataclass(frozen=True, slots=True)
class SlotsOwned:
    """Where every slot is, as this process sees it."""

    epoch: int = 0
    held: Mapping[str, frozenset[int]] = field(default_factory=dict)
    """By member, those with none included."""
    unowned: tuple[Unowned, ...] = ()
    kept: tuple[Kept, ...] = ()
    """Those alone that are overdue."""

    @property
    def oldest(self) -> float:
        """For how many seconds the slot has had no owner that is longest without; 0 where each has one."""
        return max((each.seconds for each in self.unowned), default=0.0)

    @property
    def is_whole(self) -> bool:
        """Whether each slot has an owner, and none is kept from one."""
        return not (self.unowned or self.kept)

    @property
    def message(self) -> str:
        """What is wrong, for a condition or an error; how many members there are where nothing is."""
        parts = [
            f"slots {format_slots(each.slots)} have had no owner for {each.seconds:.0f} s"
            + (f": {each.owner} has not taken them" if each.owner else ": there is no member")
            for each in self.unowned
        ]
        parts += [
            f"{each.member} has kept slots {format_slots(each.slots)} for {each.seconds:.0f} s after they were assigned to "
            "others: it renews its Lease and does not let them go; restart it"
            for each in self.kept
        ]
        if parts:
            return "; ".join(parts)
        return f"{len(ALL_SLOTS)} slots are with {sum(map(bool, self.held.values()))} members"


class SlotReport:
    """Keeps since when, by one clock in seconds."""

    def __init__(self, acknowledge_within: float = ACKNOWLEDGE_WITHIN) -> None:
        self._within = acknowledge_within
        self._unowned: dict[int, float] = {}
        self._kept: dict[tuple[int, str], float] = {}

    def update(self, assignment: Assignment, members: Members, now: float) -> SlotsOwned:
        """Return where every slot is. To be called when something changes, and once a second or so."""
        alive = members.alive(now)
        held = {name: each.announced.held for name, each in sorted(alive.items())}
        without = ALL_SLOTS.difference(*held.values())
        self._unowned = {slot: self._unowned.get(slot, now) for slot in without}
        kept = {
            (slot, former)
            for slot, each in enumerate(assignment.slots)
            for former in each.former
            if former in alive and not has_acknowledged(alive[former].announced, each.since, slot)
        }
        self._kept = {each: self._kept.get(each, now) for each in kept}
        return SlotsOwned(
            assignment.epoch, held, self._without_owner(assignment, now), self._overdue(now)
        )

    def _without_owner(self, assignment: Assignment, now: float) -> tuple[Unowned, ...]:
        found: dict[str, list[int]] = {}
        for slot in sorted(self._unowned):
            found.setdefault(assignment.slots[slot].owner, []).append(slot)
        return tuple(
            Unowned(frozenset(slots), owner, now - min(self._unowned[slot] for slot in slots))
            for owner, slots in sorted(found.items())
        )

    def _overdue(self, now: float) -> tuple[Kept, ...]:
        found: dict[str, list[int]] = {}
        since: dict[str, float] = {}
        for (slot, member), at in sorted(self._kept.items()):
            if now - at >= self._within:
                found.setdefault(member, []).append(slot)
                since[member] = min(at, since.get(member, at))
        return tuple(
            Kept(frozenset(slots), member, now - since[member]) for member, slots in found.items()
        )
