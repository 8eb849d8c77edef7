"""Which rows lost their tenants lately: the memory of the deletion guard, kept in a registry's status.

A registry remembers each removal without an approval for the guard's window. Removals of one forty-eighth of the
window share an entry, and a limited number of uids is remembered, so that the status stays small.
Pure: the clock is passed in.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Self

from apis.tenancy import RemovedRows, TenantRegistry
from apis.tenancy.tenantregistry import SavedRemovals
from internal.removal_holds import unknown_removals

SLOTS = 48
"""Entries that a window has at most."""
MOST_ENTRIES = 2 * SLOTS
"""Entries in a status, whatever the windows were that they were made with."""
MOST_UIDS = 200


@dataclass(frozen=True, slots=True)
class RecentRemovals:
    """Rows removed within the window. `unnamed` rows have uids that are not remembered."""

    uids: frozenset[str] = frozenset()
    unnamed: int = 0
    since: datetime | None = None
    """The time of the oldest of them."""
    unknown: str = ""
    """Why it is unknown what else was removed; then nothing more fits."""

    @property
    def rows(self) -> int:
        """How many rows."""
        return len(self.uids) + self.unnamed

    def __or__(self, other: RecentRemovals) -> RecentRemovals:
        """Return the rows of both: a row is one member, whatever it lost."""
        times = [each for each in (self.since, other.since) if each is not None]
        return RecentRemovals(
            self.uids | other.uids,
            self.unnamed + other.unnamed,
            min(times, default=None),
            self.unknown or other.unknown,
        )

    def leaves_room(self, rows: int, *, allowed: int, of_rows: int) -> bool:
        """Whether so many more rows may be removed, of which `allowed` may within the window."""
        return allowed >= of_rows or (rows + self.rows <= allowed and not self.unknown)


def recent(entries: Sequence[RemovedRows], now: datetime, window: timedelta) -> RecentRemovals:
    """Return what the entries tell of the window that ends now; nothing for a window of zero."""
    counted = _counted(entries, now, window)
    if not counted:
        return RecentRemovals()
    return RecentRemovals(
        frozenset(uid for entry in counted for uid in entry.uids),
        sum(max(0, entry.rows - len(entry.uids)) for entry in counted),
        min(entry.time for entry in counted),
    )


def recent_of(registry: TenantRegistry, now: datetime) -> RecentRemovals:
    """Return what a registry's status records of the window of its guard that ends now."""
    return _recent_of(registry, registry.status.removed_rows, now)


def recent_values_of(registry: TenantRegistry, now: datetime) -> RecentRemovals:
    """Return the rows that lost objects by changed values within that window."""
    return _recent_of(registry, registry.status.value_removals, now)


def _recent_of(
    registry: TenantRegistry, entries: Sequence[RemovedRows], now: datetime
) -> RecentRemovals:
    window, since = registry.spec.deletion_guard.period, registry.status.removals_unknown_since
    found = recent(entries, now, window)
    unknown = unknown_removals(since, now, window)
    return replace(found, unknown=unknown, since=since) if unknown else found


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the status of one registry was written with: it counts also where the status is wiped, as by a restore."""

    uid: str
    removed_rows: tuple[RemovedRows, ...]
    value_removals: tuple[RemovedRows, ...]
    used_approvals: Mapping[str, int]
    unknown_since: datetime | None = None
    saved: int = 0

    @classmethod
    def of(cls, registry: TenantRegistry) -> Self:
        """Return what a registry's status records."""
        status = registry.status
        return cls(
            registry.metadata.uid or "",
            tuple(status.removed_rows),
            tuple(status.value_removals),
            dict(status.used_approvals),
            status.removals_unknown_since,
            status.removals.saved,
        )

    def restored(self, registry: TenantRegistry) -> TenantRegistry:
        """Return the registry with what its status lacks of that; another one of its name as it is."""
        if registry.metadata.uid != self.uid:
            return registry
        status = registry.status
        update = {
            "removed_rows": _joined(status.removed_rows, self.removed_rows),
            "value_removals": _joined(status.value_removals, self.value_removals),
            "used_approvals": {**self.used_approvals, **status.used_approvals},
            "removals_unknown_since": status.removals_unknown_since or self.unknown_since,
            "removals": SavedRemovals(saved=max(status.removals.saved, self.saved)),
        }
        return registry.model_copy(update={"status": status.model_copy(update=update)})


def _joined(there: Sequence[RemovedRows], known: Sequence[RemovedRows]) -> list[RemovedRows]:
    """Return what is there, and what was known of times that are not."""
    times = {each.time for each in there}
    return sorted([*there, *(each for each in known if each.time not in times)], key=_time)


def _time(entry: RemovedRows) -> datetime:
    return entry.time


def record(
    entries: Sequence[RemovedRows], uids: Collection[str], now: datetime, window: timedelta
) -> list[RemovedRows]:
    """Return the entries with the rows removed now, and without those that no longer count.

    A row that came back and is removed again counts once, from now on.
    """
    added = sorted(unrecorded(entries, uids, now, window))
    counted = _counted(entries, now, window)
    kept = [left for entry in counted if (left := _without(entry, set(added))).rows]
    if not added or not window:
        return kept
    at = now.replace(microsecond=0)
    if kept and _slot(kept[-1].time, window) == _slot(at, window):
        last = kept.pop()
        rows, named = last.rows + len(added), [*last.uids, *added]
    else:
        rows, named = len(added), added
    kept.append(RemovedRows(time=at, rows=rows, uids=named))
    while len(kept) > MOST_ENTRIES:
        first, second = kept[:2]
        merged = RemovedRows(
            time=max(first.time, second.time),
            rows=first.rows + second.rows,
            uids=[*first.uids, *second.uids],
        )
        kept[:2] = [merged]
    return _with_fewer_uids(kept)


def unrecorded(
    entries: Sequence[RemovedRows], uids: Collection[str], now: datetime, window: timedelta
) -> set[str]:
    """Return which of the rows removed now are not recorded at this time yet, be it that they were at an earlier one."""
    slot = _slot(now, window)
    there = (entry for entry in _counted(entries, now, window) if _slot(entry.time, window) == slot)
    return set(uids).difference(*(entry.uids for entry in there))


def _without(entry: RemovedRows, uids: Set[str]) -> RemovedRows:
    left = [uid for uid in entry.uids if uid not in uids]
    return RemovedRows(time=entry.time, rows=entry.rows - len(entry.uids) + len(left), uids=left)


def _counted(entries: Sequence[RemovedRows], now: datetime, window: timedelta) -> list[RemovedRows]:
    if not window:
        return []
    return sorted((e for e in entries if e.time > now - window), key=lambda entry: entry.time)


def _slot(time: datetime, window: timedelta) -> int:
    return int(time.timestamp() // max(1.0, window.total_seconds() / SLOTS))


def _with_fewer_uids(entries: Sequence[RemovedRows]) -> list[RemovedRows]:
    """Forget the uids of the oldest removals; their number stays."""
    left, kept = MOST_UIDS, []
    for entry in reversed(entries):
        uids = list(islice(reversed(entry.uids), left))[::-1]
        left -= len(uids)
        kept.append(RemovedRows(time=entry.time, rows=entry.rows, uids=uids))
    return kept[::-1]
