"""Objects of the hub whose Tenant is gone: what to report, and what may be deleted. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

DELAY: Final = 600.0
"""Seconds that an owner has to be gone before its objects are deleted."""
MOST_OWNERS: Final = 10
"""Owners that may go at once without approval."""
MOST_SHARE: Final = 0.2
"""Share of all owners that may go at once without approval."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one look at the hub led to."""

    orphaned: frozenset[str] = frozenset()
    """Owners that do not exist."""
    reported: frozenset[str] = frozenset()
    """Those of them that were not reported before."""
    scheduled: frozenset[str] = frozenset()
    """Those that have been gone for long enough; their objects may be deleted once a live read confirms it."""
    held: int = 0
    """Number of owners that approval has to name before anything is deleted; 0: none is needed."""


@dataclass(slots=True)
class OrphanSweep:
    """Remembers since when owners are gone. Seconds of a clock that only grows."""

    delay: float = DELAY
    _since: dict[str, float] = field(default_factory=dict)

    def look(
        self, owners: Collection[str], living: Collection[str], now: float, approved: int = 0
    ) -> Sweep:
        """Compare the owners that objects of the hub record with those that exist.

        Too many at once are held: a data plane that was restored from an old backup has lost them too.
        `approved` is the number of owners that an administrator has approved to be deleted.
        """
        orphaned = frozenset(owners) - frozenset(living)
        reported = orphaned - self._since.keys()
        self._since = {owner: self._since.get(owner, now) for owner in orphaned}
        scheduled = frozenset(
            owner for owner, since in self._since.items() if now - since >= self.delay
        )
        held = 0
        if is_held(len(orphaned), len(frozenset(owners))) and approved != len(orphaned):
            held, scheduled = len(orphaned), frozenset()
        return Sweep(orphaned, reported, scheduled, held)

    @property
    def since(self) -> Mapping[str, float]:
        """Since when each owner is known to be gone."""
        return self._since


def is_held(orphaned: int, owners: int) -> bool:
    """Whether so many owners that are gone need approval: above 10, or above a fifth of all."""
    return orphaned > MOST_OWNERS or orphaned > MOST_SHARE * owners
