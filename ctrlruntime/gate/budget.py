"""How many members of a parent may lose an object within a window, and the record of those that did. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from math import ceil
from typing import Final, Self

from ctrlruntime.gate.removal import Removal

HOUR: Final = timedelta(hours=1)
MOST_USED: Final = 100
"""Approvals that are remembered as used, besides those that the parent still has."""
MOST_APPROVED: Final = 2000
"""Objects of an approved set that are recorded, 100 kB: the rest of a larger set that was cut short is approved again."""


@dataclass(frozen=True, slots=True)
class Approval:
    """A person's approval of one set of removals, named by its digest. It counts once."""

    digest: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class BudgetRecord:
    """What was counted, in seconds since 1970. Plain data for a parent's status: `to_dict` and `of`."""

    members: Mapping[str, int] = field(default_factory=dict)
    """When each member last lost an object."""
    state: Mapping[str, int] = field(default_factory=dict)
    """When each object that holds state was permitted to go, by UID."""
    used: Mapping[str, int] = field(default_factory=dict)
    """When each approved digest was used."""
    approved: Mapping[str, int] = field(default_factory=dict)
    """When each object of an approved set was approved, by UID: within an hour a removal of it goes on."""

    @classmethod
    def of(cls, data: object) -> Self:
        """Return the record that `to_dict` made; an empty one for None. Raises ValueError for anything else.

        What cannot be read is no empty budget.
        """
        if data is None:
            return cls()
        if not isinstance(data, Mapping):
            raise ValueError(f"a record of removals is an object, not {type(data).__name__}")
        return cls(**{name: _times(data.get(name), name) for name in _PARTS})

    def to_dict(self) -> dict[str, dict[str, int]]:
        """Return the record as JSON data; parts that are empty are left out."""
        parts: dict[str, Mapping[str, int]] = {name: getattr(self, name) for name in _PARTS}
        return {name: dict(sorted(part.items())) for name, part in parts.items() if part}

    def with_approved(
        self, removals: Sequence[Removal], digest: str, now: datetime
    ) -> BudgetRecord:
        """Return the record after the approval of a set, which is used by that."""
        at = ceil(now.timestamp())
        uids = [each.uid for each in removals] if len(removals) <= MOST_APPROVED else []
        approved = {**self.approved, **dict.fromkeys(uids, at)}
        return replace(self, used={**self.used, digest: at}, approved=approved)


_PARTS: Final = tuple(each.name for each in fields(BudgetRecord))


def _times(part: object, name: str) -> dict[str, int]:
    if part is None:
        return {}
    if not isinstance(part, Mapping):
        raise ValueError(f"{name} of a record of removals is an object")
    times: dict[str, int] = {}
    for key, at in part.items():
        if not isinstance(key, str) or isinstance(at, bool) or not isinstance(at, int):
            raise ValueError(f"{name} of a record of removals holds seconds by name")
        times[key] = at
    return times


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The limits. Raises ValueError for values that limit nothing."""

    max_percent: int = 20
    """Of the members, within the window; one member may always."""
    window: timedelta = timedelta(hours=24)
    max_with_state: int = 1
    """Objects that hold state, within an hour."""

    def __post_init__(self) -> None:
        if not 0 <= self.max_percent <= 100 or self.window < HOUR or self.max_with_state < 0:
            raise ValueError(
                "a budget has 0 to 100 percent, a window of an hour or more, and no negative limit"
            )

    def allowed(self, members: int) -> int:
        """Return how many of so many members may lose an object within the window."""
        return max(1, members * self.max_percent // 100)

    def current(self, record: BudgetRecord, now: datetime, given: Collection[str]) -> BudgetRecord:
        """Return the record without what is older than its window. A time in the future counts as now.

        A used digest stays: see `still_used`.
        """
        return BudgetRecord(
            _within(record.members, now, self.window),
            _within(record.state, now, HOUR),
            still_used(record.used, given),
            _within(record.approved, now, HOUR),
        )

    def charge(
        self, record: BudgetRecord, removals: Sequence[Removal], *, members: int, now: datetime
    ) -> BudgetRecord | str:
        """Return the record with a set of removals, or why the set is over the budget.

        `record` is a `current` one. The same member, and the same object, count once.
        """
        at = ceil(now.timestamp())
        losing = {each.counted_as: at for each in removals}
        going = {each.uid: at for each in removals if each.holds_state}
        after = replace(
            record, members={**record.members, **losing}, state={**record.state, **going}
        )
        allowed = self.allowed(members)
        if losing.keys() - record.members.keys() and len(after.members) > allowed:
            return (
                f"{len(after.members)} of {members} members would have lost an object within "
                f"{self.window // HOUR} h; {allowed} may"
            )
        if going.keys() - record.state.keys() and len(after.state) > self.max_with_state:
            return (
                f"{len(after.state)} objects that hold state would go within an hour; "
                f"{self.max_with_state} may"
            )
        return after


def still_used(used: Mapping[str, int], given: Collection[str]) -> dict[str, int]:
    """Return the used digests that are remembered: the newest hundred, and those that are `given` now."""
    newest = sorted(used, key=lambda digest: (-used[digest], digest))[:MOST_USED]
    return {digest: used[digest] for digest in used if digest in given or digest in newest}


def _within(times: Mapping[str, int], now: datetime, window: timedelta) -> dict[str, int]:
    """Return the times within the window; what is more than a window ahead becomes now."""
    seconds, length = now.timestamp(), window.total_seconds()
    return {
        key: at if at <= seconds + length else ceil(seconds)
        for key, at in times.items()
        if at > seconds - length
    }
