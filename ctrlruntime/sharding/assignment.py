"""Which member owns which slot: what one object records under an epoch, and how it follows from the members. Pure.

Slots go by rendezvous hashing, none to a member that has its share. What a member has, it keeps: only slots of members
that are gone, or that one has above its share, move.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeVar

import msgspec

from ctrlruntime.sharding.slots import ALL_SLOTS, SLOTS, BadSlots, format_slots, parse_slots

T = TypeVar("T")
RECREATED: Final = 1000
"""How far the epoch of an object that was made anew is above the highest that members announce: they may have seen more."""


class BadAssignment(ValueError):
    """An object from which no assignment can be read; the message has what to do."""


@dataclass(frozen=True, slots=True)
class SlotRecord:
    """Who owns one slot."""

    owner: str = ""
    """Empty while there is no member."""
    since: int = 0
    """The epoch with which it came to this owner."""
    former: frozenset[str] = frozenset()
    """Members that may work on it still, until each has acknowledged ``since`` or its Lease has ended."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """All slots, under an epoch that grows with each write of the object."""

    epoch: int = 0
    slots: tuple[SlotRecord, ...] = (SlotRecord(),) * SLOTS

    def owned(self, member: str) -> frozenset[int]:
        """Return the slots of a member."""
        return frozenset(slot for slot, each in enumerate(self.slots) if each.owner == member)

    @property
    def owners(self) -> dict[int, str]:
        """The owner of each slot that has one."""
        return {slot: each.owner for slot, each in enumerate(self.slots) if each.owner}

    @property
    def names(self) -> frozenset[str]:
        """The members that it names in any way."""
        return frozenset().union(*({each.owner, *each.former} for each in self.slots)) - {""}


@dataclass(frozen=True, slots=True)
class Announced:
    """What a member has acknowledged."""

    epoch: int = 0
    """The latest that it has seen."""
    held: frozenset[int] = frozenset()
    """All slots of which it may write anything still, in that epoch."""


def distribute(
    owners: Mapping[int, str],
    members: Collection[str],
    slots: frozenset[int] = ALL_SLOTS,
) -> dict[int, str]:
    """Return the owner of each of ``slots``, given their present ``owners``; empty without members.

    Shares differ by one at most, and no slot moves but those that a new member takes or a lost one had.
    """
    if not members:
        return {}
    owned: dict[str, list[int]] = {member: [] for member in sorted(members)}
    for slot in sorted(slots & owners.keys()):
        if owners[slot] in owned:
            owned[owners[slot]].append(slot)
    quotas = _quotas(owned, len(slots))
    for member, mine in owned.items():
        owned[member] = sorted(mine, key=_weights(member), reverse=True)[: quotas[member]]
    for slot in sorted(slots.difference(*owned.values())):
        below = [each for each, mine in owned.items() if len(mine) < quotas[each]]
        owned[max(below, key=lambda each: _weight(each, slot))].append(slot)
    return {slot: member for member, mine in owned.items() for slot in mine}


def _quotas(owned: Mapping[str, list[int]], slots: int) -> dict[str, int]:
    """Return how many slots each member is to have: one more where shares are not even for those that have most."""
    most_first = sorted(owned, key=lambda each: len(owned[each]), reverse=True)
    return {
        member: slots // len(owned) + (place < slots % len(owned))
        for place, member in enumerate(most_first)
    }


def _weights(member: str) -> Callable[[int], bytes]:
    return lambda slot: _weight(member, slot)


def _weight(member: str, slot: int) -> bytes:
    return hashlib.blake2b(f"{member}/{slot}".encode(), digest_size=8).digest()


def reassigned(
    before: Assignment | None,
    owners: Mapping[int, str],
    announced: Mapping[str, Announced],
    *,
    seen: int = 0,
) -> Assignment:
    """Return the assignment to write for these owners; ``before`` itself where nothing changes.

    ``announced``: what the members' Leases have, of all that there are. Where no object was before, any of them may
    hold any slot. ``seen``: the highest epoch that this process has seen itself.
    """
    if before is None:
        epoch = max([seen, *(each.epoch for each in announced.values())])
        epoch += RECREATED if epoch else 1
        return Assignment(
            epoch,
            tuple(
                SlotRecord(
                    owners.get(slot, ""), epoch, frozenset(announced.keys() - {owners.get(slot)})
                )
                for slot in range(SLOTS)
            ),
        )
    epoch = before.epoch + 1
    slots = tuple(
        _followed(slot, each, owners.get(slot, ""), epoch, announced)
        for slot, each in enumerate(before.slots)
    )
    return before if slots == before.slots else Assignment(epoch, slots)


def _followed(
    slot: int, before: SlotRecord, owner: str, epoch: int, announced: Mapping[str, Announced]
) -> SlotRecord:
    """Return the record of a slot in the next epoch, without those that hold it no more."""
    former = before.former
    if has_acknowledged(announced.get(before.owner), before.since, slot, holds=True):
        former = frozenset()  # it waited for them
    else:
        former = frozenset(
            each for each in former if not has_acknowledged(announced.get(each), before.since, slot)
        )
    if owner == before.owner:
        return replace(before, former=former)
    former |= {before.owner} - {""}
    return SlotRecord(owner, epoch, former - {owner})


def has_acknowledged(
    announced: Announced | None, since: int, slot: int, *, holds: bool = False
) -> bool:
    """Whether a member has seen epoch ``since``, and holds the slot then, or does not."""
    return announced is not None and announced.epoch >= since and (slot in announced.held) is holds


class _Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """Slots with one record."""

    slots: str
    owner: str = ""
    since: int = 0
    former: list[str] = []


class _Document(msgspec.Struct, frozen=True):
    epoch: int
    owners: list[_Stored]


def encode(assignment: Assignment) -> str:
    """Return an assignment as JSON, with slots of one record together."""
    together: dict[SlotRecord, list[int]] = {}
    for slot, each in enumerate(assignment.slots):
        together.setdefault(each, []).append(slot)
    stored = [
        _Stored(format_slots(slots), each.owner, each.since, sorted(each.former))
        for each, slots in together.items()
    ]
    return msgspec.json.encode(_Document(assignment.epoch, stored)).decode()


def decode(text: str) -> Assignment:
    """Return what ``encode`` wrote. Raises BadAssignment."""
    try:
        document = decode_record(text, _Document)
        records = dict(_records(document.owners))
    except (msgspec.MsgspecError, BadSlots) as error:
        raise BadAssignment(f"it cannot be read ({error}){_REMEDY}") from error
    if records.keys() != ALL_SLOTS or document.epoch < 1:
        raise BadAssignment(
            f"it has {len(records)} of {SLOTS} slots, epoch {document.epoch}{_REMEDY}"
        )
    return Assignment(document.epoch, tuple(records[slot] for slot in range(SLOTS)))


def decode_record(text: str, kind: type[T]) -> T:
    """Return what an annotation of a Lease records. Raises MsgspecError, also for what is nested too deep.

    By msgspec alone, as epochs may be any integers: one that a hand wrote has to be exceeded.
    """
    try:
        return msgspec.json.decode(text, type=kind)
    except (RecursionError, UnicodeError) as error:
        raise msgspec.ValidationError(f"it is no record: {type(error).__name__}") from None


def _records(stored: Iterable[_Stored]) -> Iterable[tuple[int, SlotRecord]]:
    for each in stored:
        record = SlotRecord(each.owner, each.since, frozenset(each.former))
        yield from ((slot, record) for slot in parse_slots(each.slots))


_REMEDY: Final = (
    "; it is written anew, and every member keeps its slots until it has acknowledged that"
)
