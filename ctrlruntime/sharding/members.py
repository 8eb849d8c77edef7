"""Members as their Leases show them: what each announces, and whether it may still be at work. Pure.

A Lease is over when it was released, or when it was not seen to change for its duration by the own clock; no times of
others are compared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from ctrlruntime.sharding.assignment import Announced, decode_record
from ctrlruntime.sharding.slots import SLOTS, BadSlots, format_slots, parse_slots

LABEL_VERSION: Final = 1
"""Which rule makes the label of an object; members with another one own no slots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberLease:
    """One member's Lease. ``version`` is a resourceVersion as a number."""

    name: str
    version: int
    holder: str = ""
    """The identity of the process that holds it; empty once it was released."""
    duration: float = 15.0
    """Seconds."""
    announced: Announced = field(default_factory=Announced)
    fixed: frozenset[int] | None = None
    """The slots that it was started with; None for a member that takes what it is assigned."""
    slots: int = SLOTS
    label_version: int = LABEL_VERSION

    def is_compatible(self, rule: int = LABEL_VERSION) -> bool:
        """Whether its slots mean the same as for members of this rule."""
        return (self.slots, self.label_version) == (SLOTS, rule)


class _Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    epoch: int = 0
    held: str = ""
    fixed: str | None = None
    slots: int = 0
    label: int = 0


def announcement(
    announced: Announced, fixed: frozenset[int] | None = None, rule: int = LABEL_VERSION
) -> str:
    """Return what a member writes on its Lease."""
    stored = _Stored(
        announced.epoch,
        format_slots(announced.held),
        None if fixed is None else format_slots(fixed),
        SLOTS,
        rule,
    )
    return msgspec.json.encode(stored).decode()


def read_announcement(text: str) -> tuple[Announced, frozenset[int] | None, int, int]:
    """Return what ``announcement`` wrote, with the number of slots and the version of the label; nothing of a text that is none."""
    try:
        stored = decode_record(text, _Stored)
        held = parse_slots(stored.held) if stored.held else frozenset[int]()
        fixed = parse_slots(stored.fixed) if stored.fixed else None
    except (msgspec.MsgspecError, BadSlots):
        return Announced(), None, 0, 0
    return Announced(stored.epoch, held), fixed, stored.slots, stored.label


@dataclass(frozen=True, slots=True)
class _Seen:
    lease: MemberLease
    since: float
    """When it was seen to change last, or looked for first."""
    changed: bool = False
    """Whether it was seen to change."""


class Members:
    """What was seen of every member's Lease, and when, by one clock in seconds."""

    def __init__(self, duration: float) -> None:
        """``duration``: seconds for which a member may be at work whose Lease is not there."""
        self._duration = duration
        self._seen: dict[str, _Seen] = {}

    def see(self, lease: MemberLease, now: float) -> None:
        """Note a Lease; one that is older than what was seen is left out."""
        before = self._seen.get(lease.name)
        if before is None or lease.version > before.lease.version:
            self._seen[lease.name] = _Seen(lease, now, before is not None)

    def miss(self, name: str, now: float) -> None:
        """Note that there is no such Lease: it may have been deleted by hand, so it ends only after its duration."""
        if name not in self._seen:
            lease = MemberLease(name=name, version=0, holder="?", duration=self._duration)
            self._seen[name] = _Seen(lease, now)

    def forget(self, name: str) -> None:
        """Forget a member."""
        self._seen.pop(name, None)

    @property
    def leases(self) -> Mapping[str, MemberLease]:
        """The latest of each that was seen, by name."""
        return {name: each.lease for name, each in self._seen.items()}

    @property
    def announced(self) -> Mapping[str, Announced]:
        """What each has acknowledged, by name."""
        return {name: each.lease.announced for name, each in self._seen.items()}

    def get(self, name: str) -> MemberLease | None:
        """Return the latest that was seen of one."""
        seen = self._seen.get(name)
        return None if seen is None else seen.lease

    def is_over(self, name: str, now: float) -> bool:
        """Whether the process that held the Lease works no more. Not known, so False, of one that was never looked for."""
        seen = self._seen.get(name)
        if seen is None:
            return False
        return not seen.lease.holder or now > seen.since + seen.lease.duration

    def is_at_work(self, name: str, now: float) -> bool:
        """Whether a process was seen to renew the Lease, and it is not over. Of one that was seen once it is not known yet."""
        seen = self._seen.get(name)
        return seen is not None and seen.changed and not self.is_over(name, now)

    def over_since(self, name: str, now: float) -> float:
        """Return for how many seconds a Lease has been over; 0 of one that is not."""
        seen = self._seen.get(name)
        if seen is None or not self.is_over(name, now):
            return 0.0
        return now - seen.since - (seen.lease.duration if seen.lease.holder else 0.0)

    def alive(self, now: float) -> dict[str, MemberLease]:
        """Return those that may be at work, by name."""
        return {
            name: each.lease for name, each in self._seen.items() if not self.is_over(name, now)
        }
