"""One member's part in a hand-over: what it may work on, what it takes and what it lets go. Pure, with a clock passed in.

A slot is worked on by whom the assignment names, once each former owner has acknowledged that or its Lease is over. That a
Lease is over counts only if it was read from the server after the assignment: a process that took it up again since has read
an assignment that is at least as new, and there is not the owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from ctrlruntime.sharding.assignment import Announced, Assignment, SlotRecord, has_acknowledged
from ctrlruntime.sharding.members import Members


class EpochWentBack(RuntimeError):
    """The assignment is older than it was: the server was restored. What this process has read is not to be relied on."""


class Phase(Enum):
    """Where a slot stands in this process."""

    TAKING = "taking"
    """Its objects are being listed."""
    READY = "ready"
    """They are, and a former owner may be at work still."""
    HELD = "held"
    LEAVING = "leaving"
    """No pass begins any more; those that run may write."""
    DROPPING = "dropping"
    """It was taken and never held."""


@dataclass(frozen=True, slots=True)
class Work:
    """What is to be done now."""

    take: frozenset[int] = frozenset()
    begin: frozenset[int] = frozenset()
    """Held from now on."""
    release: frozenset[int] = frozenset()
    confirm: frozenset[str] = frozenset()
    """Members whose Leases look over, and have to be read from the server."""


@dataclass(slots=True)
class HandOver:
    """The slots of the member ``name``."""

    name: str
    epoch: int = 0
    _assignment: Assignment = field(default_factory=Assignment)
    _observed: Assignment | None = None
    """As it was read."""
    _phases: dict[int, Phase] = field(default_factory=dict)
    _over: dict[str, int] = field(default_factory=dict)
    """Members whose Leases were over when read from the server, with the latest epoch that was seen before."""

    @property
    def assignment(self) -> Assignment:
        """The latest that was seen."""
        return self._assignment

    @property
    def held(self) -> frozenset[int]:
        """Slots of which passes may begin."""
        return self._in(Phase.HELD)

    @property
    def writable(self) -> frozenset[int]:
        """Slots of which something may be written."""
        return self._in(Phase.HELD, Phase.LEAVING)

    @property
    def announced(self) -> Announced:
        """What the member's Lease is to have."""
        return Announced(self.epoch, self.writable)

    def _in(self, *phases: Phase) -> frozenset[int]:
        return frozenset(slot for slot, phase in self._phases.items() if phase in phases)

    def observe(self, assignment: Assignment) -> None:
        """Note the assignment, as it was read from the server. Raises EpochWentBack."""
        if assignment is self._observed:
            return
        if assignment.epoch < self.epoch:
            raise EpochWentBack(
                f"the assignment of slots has epoch {assignment.epoch}, and this process has seen {self.epoch}: the server "
                "was restored from a backup; this process ends, to be started again"
            )
        self.epoch, self._assignment = assignment.epoch, self._with_owners_seen(assignment)
        self._observed = assignment

    def _with_owners_seen(self, assignment: Assignment) -> Assignment:
        """Return it with the owners that this process saw before among those that may still work on slots that are now its own.

        The leader names all of them; a person who edits the object may not, and a slot would have two owners.
        """
        pairs = enumerate(zip(self._assignment.slots, assignment.slots, strict=True))
        return replace(
            assignment, slots=tuple(self._with_owner_seen(slot, *pair) for slot, pair in pairs)
        )

    def _with_owner_seen(self, slot: int, seen: SlotRecord, now: SlotRecord) -> SlotRecord:
        if now.owner != self.name:
            return now
        if seen.owner != self.name:
            return replace(now, former=now.former | ({seen.owner} - {""}))
        if now.since != seen.since or self._phases.get(slot) is Phase.HELD:  # it waited for them
            return now
        return replace(now, former=now.former | seen.former)

    def work(self, members: Members, now: float) -> Work:
        """Return what is to be done, and note that it has begun."""
        mine = self._assignment.owned(self.name)
        take = mine - self._phases.keys()
        leave = self.held - mine
        drop = self._in(Phase.READY) - mine
        self._set(take, Phase.TAKING)
        self._set(leave, Phase.LEAVING)
        self._set(drop, Phase.DROPPING)
        waits = self._waits(self._in(Phase.READY), members)
        begin = frozenset(slot for slot, former in waits.items() if not former)
        self._set(begin, Phase.HELD)
        looks_over = {
            each for former in waits.values() for each in former if members.is_over(each, now)
        }
        return Work(take, begin, leave | drop, frozenset(looks_over))

    def _waits(self, slots: Iterable[int], members: Members) -> dict[int, frozenset[str]]:
        """Return the former owners that may still work on each slot."""
        announced = members.announced
        return {slot: self._former(slot, announced) for slot in slots}

    def _former(self, slot: int, announced: Mapping[str, Announced]) -> frozenset[str]:
        record = self._assignment.slots[slot]
        return frozenset(
            each
            for each in record.former - {self.name}
            if self._over.get(each, 0) < record.since
            and not has_acknowledged(announced.get(each), record.since, slot)
        )

    def taken(self, slots: Iterable[int]) -> None:
        """Note that slots have been listed."""
        self._set(slots, Phase.READY)

    def released(self, slots: Iterable[int]) -> None:
        """Note that nothing of slots runs any more."""
        for slot in slots:
            del self._phases[slot]

    def confirm(self, name: str, epoch: int, members: Members, now: float) -> None:
        """Note what ``members`` has of a Lease that was read from the server after ``epoch`` had been seen."""
        if members.is_over(name, now):
            self._over[name] = max(epoch, self._over.get(name, 0))

    def _set(self, slots: Iterable[int], phase: Phase) -> None:
        for slot in slots:
            self._phases[slot] = phase
