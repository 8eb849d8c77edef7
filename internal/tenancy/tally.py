"""How many tenants a registry or a template has, and how many of them are ready: counted in O(1).

Fed with tenant events, so that no status update ever walks over all tenants.
"""

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum


class TenantState(StrEnum):
    """What a tenant's Ready condition says, boiled down to what is counted."""

    PENDING = "pending"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Counts:
    """Tenants of one group, by state."""

    total: int = 0
    ready: int = 0
    failed: int = 0


class Tally:
    """Counts members of groups by state. A member belongs to any number of groups."""

    def __init__(self) -> None:
        self._members: dict[Hashable, tuple[tuple[Hashable, ...], TenantState]] = {}
        self._counts: dict[Hashable, Counter[TenantState]] = {}

    def put(
        self, member: Hashable, groups: tuple[Hashable, ...], state: TenantState
    ) -> frozenset[Hashable]:
        """Record a member. Returns the groups whose counts changed."""
        before = self._members.get(member)
        if before == (groups, state):
            return frozenset()
        changed = self.remove(member) | frozenset(groups)
        self._members[member] = (groups, state)
        for group in groups:
            self._counts.setdefault(group, Counter())[state] += 1
        return changed

    def remove(self, member: Hashable) -> frozenset[Hashable]:
        """Forget a member. Returns the groups whose counts changed."""
        groups, state = self._members.pop(member, ((), TenantState.PENDING))
        for group in groups:
            counts = self._counts[group]
            counts[state] -= 1
            if counts.total() == 0:
                del self._counts[group]
        return frozenset(groups)

    def counts(self, group: Hashable) -> Counts:
        """The counts of one group; zeros if it has no members."""
        counts = self._counts.get(group)
        if counts is None:
            return Counts()
        return Counts(
            total=counts.total(),
            ready=counts[TenantState.READY],
            failed=counts[TenantState.FAILED],
        )
