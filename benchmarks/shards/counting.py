"""Figures of managers that share tenants, from the proxy's log of requests. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchmarks.frame import violated
from ctrlruntime.envtest.proxy import LogEntry
from ctrlruntime.envtest.proxy.log import LEASES
from ctrlruntime.envtest.proxy.requests import WRITES
from ctrlruntime.sharding.slots import SLOTS

FAIR = 1.2
"""What the busiest member may have of its equal part."""
EVENTS = "events.events.k8s.io"
LEASE_SECONDS = 15.0
Place = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class RunFigures:
    """What was carried out for Instances."""

    runs: int = 0
    doubled: int = 0
    """Of these, those that had been carried out before for the same inputs."""


@dataclass(slots=True)
class ShardFigures:
    """The last line. Leases and events aside, wherever requests are counted."""

    members: int = 0
    rows: int = 0
    lease: float = LEASE_SECONDS
    seconds: float = 0.0
    """From the registry until all are ready, both halves of the rows."""
    writes: int = 0
    """To tenants and what they have until all are ready, statuses aside."""
    writes_of_one: int = 0
    """By one manager that is not divided, in a run of its own."""
    status_writes: int = 0
    """To statuses of tenants: a tenant that is not ready within a second has one more."""
    status_writes_of_one: int = 0
    migration_writes: int = 0
    """Most to one object when members take over a fleet without labels."""
    overlap_writes: int = 0
    """Objects of tenants that were written by two members while none came or went."""
    largest_share: float = 0.0
    """Of the tenants' objects, those of the member that wrote most."""
    watch_bytes_share: float = 0.0
    """What the server sent on the watches of the member that got most, to what one manager gets."""
    object_bytes_share: float = 0.0
    """The same of what tenants have: every member watches all Tenants."""
    steady_seconds: float = 0.0
    steady_requests: int = 0
    restart_writes: int = 0
    unowned_seconds: float = 0.0
    """From the kill of a member to the first write of another one to an object of a tenant that the dead one had."""
    moved_slots: int = 0
    """When a member is killed, or when it comes back, whichever is more."""
    repeated_passes_elsewhere: int = 0
    """Writes to tenants of other members while tenants were taken over, and to any when the member came back."""
    cpu_ratio: float = 0.0
    """Processor time of all members for a row more, to that of one manager. What each process needs by itself, at the start or
    when idle, is not in it; that members share cores and caches is."""
    cpu_ms_a_row: float = 0.0
    cpu_ms_a_row_of_one: float = 0.0
    runs: int = 0
    doubled_runs: int = 0
    """Tasks of Instances that were carried out twice for the same inputs, while members were killed."""
    lost: int = 0
    """Rows whose tenant is not ready at the end."""

    def violations(self) -> list[str]:
        """The bounds that do not hold."""
        share, most = FAIR / self.members, SLOTS // self.members + 1
        return violated(
            {
                "overlap_writes > 0": self.overlap_writes > 0,
                f"largest_share > {FAIR}/members": self.largest_share > share,
                f"watch_bytes_share > {FAIR}/members": self.watch_bytes_share > share,
                f"object_bytes_share > {FAIR}/members": self.object_bytes_share > share,
                f"writes ({self.writes}) > those of one ({self.writes_of_one})": self.writes
                > self.writes_of_one,
                f"status_writes ({self.status_writes}) > those of one + 5 %": self.status_writes
                > 1.05 * self.status_writes_of_one,
                "migration_writes > 1": self.migration_writes > 1,
                "steady_requests > 0": self.steady_requests > 0,
                "restart_writes > 0": self.restart_writes > 0,
                f"unowned_seconds > {self.lease + 2:g}": self.unowned_seconds > self.lease + 2,
                f"moved_slots > {most}": self.moved_slots > most,
                "repeated_passes_elsewhere > 0": self.repeated_passes_elsewhere > 0,
                f"cpu_ratio > {FAIR}": self.cpu_ratio > FAIR,
                "doubled_runs > 0": self.doubled_runs > 0,
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
