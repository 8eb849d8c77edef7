"""Figures of managers that share tenants, from the proxy's log of requests. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchmarks.frame import violated
from ctrlruntime.envtest.proxy import LogEntry
from ctrlruntime.envtest.proxy.log import LEASES
from ctrlruntime.envtest.proxy.requests import WRITES

FAIR = 1.2
"""What the busiest member may have of its equal part."""
EVENTS = "events.events.k8s.io"
LEASE_SECONDS = 15.0
Place = tuple[str, str, str]


@dataclass(slots=True)
class ShardFigures:
    """The last line."""

    members: int = 0
    rows: int = 0
    seconds: float = 0.0
    writes: int = 0
    """Until all are ready; Leases and events aside, here and below."""
    writes_of_one: int = 0
    """By one manager that is not divided, in a run of its own."""
    overlap_writes: int = 0
    """Objects of tenants that were written by two members while none came or went."""
    largest_share: float = 0.0
    """Of the tenants' objects, those of the member that wrote most."""
    steady_seconds: float = 0.0
    steady_requests: int = 0
    restart_writes: int = 0
    unowned_seconds: float = 0.0
    """From the kill of a member to the first write of another one to an object of a tenant that the dead one had."""
    repeated_passes_elsewhere: int = 0
    """Writes to tenants of other members while its tenants were taken over."""
    cpu_ratio: float = 0.0
    """Processor time of all members until all are ready, to that of one manager."""
    lost: int = 0
    """Rows whose tenant is not ready at the end."""

    def violations(self) -> list[str]:
        """The bounds that do not hold."""
        return violated(
            {
                "overlap_writes > 0": self.overlap_writes > 0,
                f"largest_share > {FAIR}/members": self.largest_share > FAIR / self.members,
                f"writes ({self.writes}) > those of one ({self.writes_of_one}) + 5 %": self.writes
                > 1.05 * self.writes_of_one,
                "steady_requests > 0": self.steady_requests > 0,
                "restart_writes > 0": self.restart_writes > 0,
                f"unowned_seconds > {LEASE_SECONDS + 2:g}": self.unowned_seconds
                > LEASE_SECONDS + 2,
                "repeated_passes_elsewhere > 0": self.repeated_passes_elsewhere > 0,
                "lost > 0": self.lost > 0,
            }
        )


def counted(entries: Iterable[LogEntry], users: Iterable[str]) -> list[LogEntry]:
    """Return the requests of the members, without watches, Leases and events."""
    members = frozenset(users)
    return [
        each
        for each in entries
        if each.user in members and each.verb != "watch" and each.resource not in (LEASES, EVENTS)
    ]


def writes(entries: Iterable[LogEntry]) -> list[LogEntry]:
    """Return those that wrote."""
    return [each for each in entries if each.verb in WRITES]


def writers(entries: Iterable[LogEntry], kinds: frozenset[str]) -> Mapping[Place, set[str]]:
    """Return by whom each object of these kinds was written."""
    found: defaultdict[Place, set[str]] = defaultdict(set)
    for each in writes(entries):
        if each.resource in kinds and each.name and each.code < 400:
            found[each.resource, each.namespace, each.name].add(each.user)
    return found


def overlaps(by_place: Mapping[Place, set[str]]) -> int:
    """Return how many objects two members wrote."""
    return sum(len(users) > 1 for users in by_place.values())


def largest_share(by_place: Mapping[Place, set[str]], users: Iterable[str]) -> float:
    """Return the part of the objects that the busiest member wrote."""
    shares = [sum(user in wrote for wrote in by_place.values()) for user in users]
    return max(shares, default=0) / max(1, len(by_place))
