"""The request log: who asked what how often, and what was answered. No I/O."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import NamedTuple

import msgspec

from ctrlruntime.clock import wall
from ctrlruntime.envtest.proxy.requests import READS, WRITES, RequestInfo

LEASES = "leases.coordination.k8s.io"


class CountKey(NamedTuple):
    user: str
    verb: str
    resource: str
    code: int


class Row(msgspec.Struct, frozen=True):
    """One line of the exported log."""

    user: str
    verb: str
    resource: str
    code: int
    count: int


class LogEntry(msgspec.Struct, frozen=True):
    """One answered request. `injected` names the fault, if any.

    `began` is when its head had come, `at` when it was answered, in seconds since the epoch.

    A lost reply is logged with the code the server gave: the server did the work.
    """

    at: float
    user: str
    verb: str
    resource: str
    namespace: str
    name: str
    code: int
    injected: str = ""
    began: float = 0.0
    acting_as: str = ""
    """Whom the user impersonated."""
    streams_list: bool = False
    """Whether it was a watch that begins with the list."""


Observer = Callable[[LogEntry], None]


class Counts:
    """Request counts by user, verb, resource and code; immutable to its reader."""

    def __init__(self, counts: Counter[CountKey] | None = None) -> None:
        self._counts = counts if counts is not None else Counter()

    def select(
        self,
        *,
        user: str | None = None,
        verbs: Collection[str] | None = None,
        resource: str | None = None,
        code: int | None = None,
        exclude: Collection[str] = (),
    ) -> Counts:
        """Return the counts of what matches everything named; `exclude` holds resources to leave out."""
        kept = Counter(
            {
                key: count
                for key, count in self._counts.items()
                if (user is None or key.user == user)
                and (verbs is None or key.verb in verbs)
                and (resource is None or key.resource == resource)
                and (code is None or key.code == code)
                and key.resource not in exclude
            }
        )
        return Counts(kept)

    def without_leases(self) -> Counts:
        return self.select(exclude=(LEASES,))

    @property
    def total(self) -> int:
        return self._counts.total()

    @property
    def writes(self) -> int:
        """Creates, updates, patches, applies and deletes, whatever their answer."""
        return self._sum(WRITES)

    @property
    def reads(self) -> int:
        """Gets and lists, discovery included."""
        return self._sum(READS)

    @property
    def watches(self) -> int:
        """Watch requests (not events)."""
        return self._sum(frozenset({"watch"}))

    def verb(self, verb: str) -> int:
        return self._sum(frozenset({verb}))

    def _sum(self, verbs: frozenset[str]) -> int:
        return sum(count for key, count in self._counts.items() if key.verb in verbs)

    def __iter__(self) -> Iterator[Row]:
        for key, count in sorted(self._counts.items()):
            yield Row(*key, count)

    def __sub__(self, other: Counts) -> Counts:
        return Counts(self._counts - other._counts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counts) and self._counts == other._counts

    def __hash__(self) -> int:
        return hash(frozenset(self._counts.items()))

    def __str__(self) -> str:
        rows = [f"{r.count:>8}  {r.user}  {r.verb}  {r.resource}  {r.code}" for r in self]
        return "\n".join(rows) or "no requests"

    __repr__ = __str__

    @classmethod
    def of(cls, rows: Collection[Row]) -> Counts:
        return cls(Counter({CountKey(r.user, r.verb, r.resource, r.code): r.count for r in rows}))


class Mark(msgspec.Struct, frozen=True):
    """A moment in the log."""

    sequence: int
    rows: tuple[Row, ...]


class RequestLog:
    """Counts of all answered requests, and the last `keep` of them one by one."""

    def __init__(self, *, keep: int = 20_000, clock: Callable[[], float] = wall) -> None:
        self._counts: Counter[CountKey] = Counter()
        self._recent: deque[tuple[float, RequestInfo, int, str, float]] = deque(maxlen=keep)
        self._sequence = 0
        self._clock = clock
        self._observers: list[Observer] = []
        self._watched: Counter[tuple[str, str]] = Counter()

    def now(self) -> float:
        """Return the log's clock."""
        return self._clock()

    def record(
        self, info: RequestInfo, code: int, injected: str = "", *, began: float | None = None
    ) -> None:
        """Note an answer; ``began`` is left out for what was answered at once."""
        now = self._clock()
        self._counts[CountKey(info.user, info.verb, info.resource, code)] += 1
        answered = (now, info, code, injected, now if began is None else began)
        self._recent.append(answered)
        self._sequence += 1
        for observer in self._observers:
            observer(_entry(*answered))

    def record_watched(self, info: RequestInfo, count: int) -> None:
        """Note bytes that the server sent on a watch."""
        self._watched[info.user, info.resource] += count

    def watched_bytes(self, user: str) -> Mapping[str, int]:
        """Return by resource how many bytes the server has sent on a user's watches."""
        return {
            resource: count for (each, resource), count in self._watched.items() if each == user
        }

    def observe(self, observer: Observer) -> None:
        """Call `observer` for every request that is answered from now on."""
        self._observers.append(observer)

    def counts(self) -> Counts:
        return Counts(self._counts.copy())

    def mark(self) -> Mark:
        return Mark(self._sequence, tuple(self.counts()))

    def since(self, mark: Mark) -> Counts:
        """Return what was answered after `mark` was taken."""
        return self.counts() - Counts.of(mark.rows)

    def entries(self, since: Mark | None = None) -> list[LogEntry]:
        """Return the requests after `since`, oldest first, as far as they are still kept."""
        wanted = self._sequence - (since.sequence if since else 0)
        kept = list(self._recent)[-wanted:] if wanted else []
        return [_entry(*answered) for answered in kept]


def _entry(at: float, info: RequestInfo, code: int, injected: str, began: float) -> LogEntry:
    return LogEntry(
        at,
        info.user,
        info.verb,
        info.resource,
        info.namespace,
        info.name,
        code,
        injected,
        began,
        info.acting_as,
        info.streams_list,
    )
