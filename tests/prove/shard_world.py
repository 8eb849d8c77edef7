"""A hand-over of shards: no two members may ever write for one slot, and in the end the one that is named works on it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace

from ctrlruntime.sharding.assignment import Announced, Assignment, SlotRecord, reassigned
from ctrlruntime.sharding.handover import HandOver, Phase
from ctrlruntime.sharding.members import MemberLease, Members
from ctrlruntime.sharding.slots import SLOTS
from tests.prove.explorer import Model, ModelScope, Violated

_LEASE = 2
"""Steps of time for which a Lease lasts after it was seen to change; its holder writes for one less."""
_SLOT = 0
"""The others have no owner."""


@dataclass(slots=True)
class Member:
    """One process under a name, and what it sees."""

    handover: HandOver
    members: Members = field(default_factory=lambda: Members(_LEASE - 0.5))
    until: int | None = None
    """Until when it may write; None before its Lease is held."""
    alive: bool = True
    before: int = -1
    """Until when the process before it, of its name, may have written: the election waits for that."""
    fresh: bool = False
    """Whether it has read the assignment since it took its Lease."""


class Shard(Model):
    """One slot, its members and the server. ``changes``, ``faults``: how many are left."""

    def __init__(self, members: int, changes: int, faults: int) -> None:
        self.now = 0
        self.version = 0
        self.changes, self.faults = changes, faults
        self.leases: dict[str, MemberLease] = {}
        self.assignment = Assignment(1, (SlotRecord("m0", 1),) + (SlotRecord(),) * (SLOTS - 1))
        self.members = {f"m{n}": Member(HandOver(f"m{n}")) for n in range(members)}

    def copy(self) -> Shard:
        """Return a copy; what is immutable is shared."""
        made = object.__new__(type(self))
        made.now, made.version = self.now, self.version
        made.changes, made.faults = self.changes, self.faults
        made.leases, made.assignment = dict(self.leases), self.assignment
        made.members = {}
        for name, each in self.members.items():
            copied = replace(each.handover)
            copied._phases, copied._over = dict(each.handover._phases), dict(each.handover._over)
            seen = Members(_LEASE - 0.5)
            seen._seen = dict(each.members._seen)
            made.members[name] = replace(each, handover=copied, members=seen)
        return made

    def key(self) -> Hashable:
        """All that decides what comes next: of versions only which are the server's, of times how long ago."""
        return (
            self.changes,
            self.faults,
            (self.assignment.epoch, self.assignment.slots[_SLOT]),
            tuple(replace(each, version=0) for _, each in sorted(self.leases.items())),
            tuple(self._key(each) for each in self.members.values()),
        )

    def _key(self, member: Member) -> Hashable:
        handover = member.handover
        seen = tuple(
            (
                replace(each.lease, version=0),
                self._is_current(name, each.lease),
                min(self.now - each.since, _LEASE),
            )
            for name, each in sorted(member.members._seen.items())
        )
        return (
            member.alive,
            member.fresh,
            None if member.until is None else max(member.until - self.now, -1),
            max(member.before - self.now, -1),
            (handover.epoch, handover.assignment.slots[_SLOT]),
            handover._phases.get(_SLOT),
            tuple(sorted(handover._over.items())),
            seen,
        )

    def _is_current(self, name: str, lease: MemberLease) -> bool:
        return name in self.leases and self.leases[name].version == lease.version

    def acts(self) -> Iterable[tuple[str, tuple[object, ...], bool]]:
        """Any member does one thing, or none for a while; all do what is theirs in one round."""
        for name, member in self.members.items():
            if member.alive:
                yield "renew", (name,), False
                yield "look", (name,), False
                yield "let_go", (name,), False
                for other in self.members.keys() - {name}:
                    yield "confirm", (name, other), False
                if self.faults:
                    yield "crash", (name,), False
                    yield "leave", (name,), False
            else:
                yield "restart", (name,), False
            if self.changes and self.assignment.slots[_SLOT].owner != name:
                yield "assign", (name,), False
        ending = [each for each in self.members.values() if each.until == self.now]
        if len(ending) <= self.faults:
            yield "tick", (), False
        yield "round", (), True

    def renew(self, name: str) -> None:
        """Have a member take or renew its Lease, for one term alone."""
        member, now = self.members[name], self.now
        if member.until is not None and now > member.until:
            self._end(name)
            return
        if now <= member.before:
            return
        self._put(name, "p", member.handover.announced)
        member.until = now + 1

    def _put(self, name: str, holder: str, announced: Announced) -> None:
        self.version += 1
        self.leases[name] = MemberLease(
            name=name,
            version=self.version,
            holder=holder,
            duration=_LEASE - 0.5,
            announced=announced,
        )

    def look(self, name: str) -> None:
        """Have a member see all that there is."""
        member = self.members[name]
        for other in self.members.keys() - {name}:
            self._see(member, other)
        member.handover.observe(self.assignment)
        member.fresh = member.until is not None
        self._step(member)

    def _see(self, member: Member, other: str) -> None:
        if other in self.leases:
            member.members.see(self.leases[other], self.now)
        else:
            member.members.miss(other, self.now)

    def _step(self, member: Member) -> None:
        """Have a member begin what it may. Raises Violated."""
        if not member.fresh:
            return
        handover = member.handover
        handover.taken(handover.work(member.members, self.now).take)
        handover.work(member.members, self.now)
        self._check()

    def confirm(self, name: str, other: str) -> None:
        """Have a member read a Lease from the server."""
        member = self.members[name]
        if member.members.is_over(other, self.now):
            self._see(member, other)
            member.handover.confirm(other, member.handover.epoch, member.members, self.now)
            self._step(member)

    def let_go(self, name: str) -> None:
        """Have the passes end of what a member lets go."""
        handover = self.members[name].handover
        handover.released([slot for slot in handover._phases if _leaves(handover, slot)])

    def assign(self, name: str) -> None:
        """Have a leader give the slot to a member."""
        self.changes -= 1
        announced = {each: lease.announced for each, lease in self.leases.items()}
        self.assignment = reassigned(self.assignment, {_SLOT: name}, announced)

    def crash(self, name: str) -> None:
        """End a process as it is."""
        self.faults -= 1
        self._end(name)

    def leave(self, name: str) -> None:
        """End a process in order."""
        self.faults -= 1
        member = self.members[name]
        found = self.leases.get(name)
        if _may_write(member, self.now) and found is not None:
            self._put(name, "", found.announced)
            member.until = None
        self._end(name)

    def _end(self, name: str) -> None:
        before = self.members[name]
        until = before.before if before.until is None else before.until
        self.members[name] = Member(HandOver(name), alive=False, before=until)

    def restart(self, name: str) -> None:
        """Begin anew under the same name."""
        self.members[name].alive = True

    def tick(self) -> None:
        """Let time pass; a term that ends is a fault."""
        self.faults -= sum(each.until == self.now for each in self.members.values())
        self.now += 1

    def round(self) -> None:
        """Have each do all that is to be done, and time pass."""
        for name, member in self.members.items():
            if not member.alive:
                self.restart(name)
            self.look(name)
            self.renew(name)
            if self.members[name].alive:
                self.look(name)
                for other in self.members.keys() - {name}:
                    self.confirm(name, other)
                self.let_go(name)
                self.renew(name)
        self.tick()

    def _check(self) -> None:
        writers = [
            name
            for name, each in self.members.items()
            if _may_write(each, self.now) and _SLOT in each.handover.writable
        ]
        if len(writers) > 1:
            raise Violated(f"{writers} write for one slot")

    def is_calm(self) -> bool:
        """Whether its owner works on the slot, and no other. Raises Violated."""
        self._check()
        owner = self.assignment.slots[_SLOT].owner
        works = [
            name
            for name, each in self.members.items()
            if _may_write(each, self.now) and _SLOT in each.handover.held
        ]
        return works == [owner]


def _may_write(member: Member, now: int) -> bool:
    return member.alive and member.until is not None and now <= member.until


def _leaves(handover: HandOver, slot: int) -> bool:
    return handover._phases[slot] in (Phase.LEAVING, Phase.DROPPING)


def shard_world(*, small: bool = False) -> ModelScope[Shard]:
    """Return the world of a hand-over between two members, one of which may fail, or of one without a failure."""
    start = Shard(2, 1, 0 if small else 1)
    for _ in range(3):
        start.round()
    return ModelScope("shards", start)
