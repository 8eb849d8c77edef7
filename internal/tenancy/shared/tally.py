"""How many tenants a registry or a template has, how many are ready and which revision: counted in O(1).

Fed with tenant events, so that no status update ever walks over all tenants.
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from enum import StrEnum


class TenantState(StrEnum):
    """What is counted of a tenant's Ready condition."""

    PENDING = "pending"
    READY = "ready"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Counts:
    """Tenants of one group, by state; `updated` are those with the revision in question."""

    total: int = 0
    ready: int = 0
    failed: int = 0
    updated: int = 0


class Tally:
    """Counts members of groups by state. A member belongs to any number of groups."""

    def __init__(self) -> None:
        self._members: dict[Hashable, tuple[tuple[Hashable, ...], TenantState, str]] = {}
        self._counts: dict[Hashable, Counter[tuple[TenantState, str]]] = {}

    def put(
        self, member: Hashable, groups: tuple[Hashable, ...], state: TenantState, revision: str = ""
    ) -> frozenset[Hashable]:
        """Record a member. Returns the groups whose counts changed."""
        before = self._members.get(member)
        if before == (groups, state, revision):
            return frozenset()
        changed = self.remove(member) | frozenset(groups)
        self._members[member] = (groups, state, revision)
        for group in groups:
            self._counts.setdefault(group, Counter())[state, revision] += 1
        return changed

    def remove(self, member: Hashable) -> frozenset[Hashable]:
        """Forget a member. Returns the groups whose counts changed."""
        groups, state, revision = self._members.pop(member, ((), TenantState.PENDING, ""))
        for group in groups:
            counts = self._counts[group]
            counts[state, revision] -= 1
            if not counts[state, revision]:
                del counts[state, revision]  # there are few revisions at a time
            if not counts:
                del self._counts[group]
        return frozenset(groups)

    def ready_among(self, group: Hashable, members: Iterable[Hashable]) -> int:
        """Count the members of a group that are ready, among those given."""
        found = (self._members.get(member) for member in members)
        return sum(
            each is not None and group in each[0] and each[1] is TenantState.READY for each in found
        )

    def counts(self, group: Hashable, revision: str | None = None) -> Counts:
        """Return the counts of one group, zeros if it has no members; `updated` are of `revision`."""
        total = ready = failed = updated = 0
        for (state, carried), number in self._counts.get(group, {}).items():
            total += number
            ready += number if state is TenantState.READY else 0
            failed += number if state is TenantState.FAILED else 0
            updated += number if carried == revision else 0
        return Counts(total, ready, failed, updated)
