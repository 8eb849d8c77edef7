"""Which events become objects, and how often they are written. Pure: clocks are passed in.

- Equal events are one object with a series: the second is written at once, further ones are
  counted here and written when the series is refreshed or ends.
- Events that differ in their note only are merged once there are ``similar_limit`` of them.
- Each object may cause ``burst`` new events, then one per ``refill`` seconds.

The series are those of client-go's ``tools/events``, the two limits those of its ``tools/record``.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.name_rules import subdomain
from ctrlruntime.api.scalars import format_micro_time

NOTE_LIMIT = 1024
_NAME_LIMIT = 253
_NOT_IN_NAMES = re.compile(r"[^a-z0-9.-]+")
COMBINED = "(combined from similar events): "

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventOptions:
    """Limits of a recorder. Times in seconds; the defaults are client-go's."""

    queue_size: int = 1000
    """Events waiting to be sent; further ones are dropped and counted."""
    tries: int = 12
    retry_delay: float = 10.0
    """Between tries, up to a quarter longer at random."""
    refresh_interval: float = 1800.0
    """How often a running series that grew is written."""
    finish_after: float = 360.0
    """Silence that ends a series."""
    similar_limit: int = 10
    """Distinct notes within ``similar_interval`` after which events are merged."""
    similar_interval: float = 600.0
    burst: int = 25
    refill: float = 300.0
    remembered: int = 4096
    """Series, groups of similar events and objects that are kept in mind, each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """Something worth telling about an object. References are ObjectReferences."""

    regarding: Mapping[str, str]
    type: str
    reason: str
    action: str
    note: str
    related: Mapping[str, str] | None = None

    @property
    def group(self) -> tuple[Hashable, ...]:
        """What similar events have in common."""
        return (
            _identity(self.regarding),
            self.type,
            self.reason,
            self.action,
            _identity(self.related) if self.related is not None else None,
        )


@dataclass(slots=True, eq=False)
class Series:
    """One Event object and the occurrences it stands for."""

    namespace: str
    name: str
    manifest: Manifest
    last_observed: datetime
    seen_at: float
    count: int = 1
    created: bool = False
    written: int = 0
    """The count last written; 0 until the object exists."""
    written_at: float = 0.0

    def for_create(self) -> Manifest:
        """Return the Event to create."""
        if self.count == 1:
            return self.manifest
        return {**self.manifest, "series": self._series()}

    def for_patch(self) -> Manifest:
        """Return the merge patch that brings the object up to date."""
        return {"series": self._series()}

    def _series(self) -> Manifest:
        return {
            "count": self.count,
            "lastObservedTime": format_micro_time(self.last_observed),
        }


@dataclass(slots=True)
class _Similar:
    since: float
    notes: set[str] = field(default_factory=set)


@dataclass(slots=True)
class _Bucket:
    tokens: float
    updated: float


class _Recent(Generic[K, V]):
    """A mapping that forgets what was used least recently."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.items: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        value = self.items.get(key)
        if value is not None:
            self.items.move_to_end(key)
        return value

    def put(self, key: K, value: V) -> V:
        self.items[key] = value
        if len(self.items) > self._limit:
            self.items.popitem(last=False)
        return value


class Correlator:
    """Turns occurrences into series. ``clock`` is monotonic seconds, ``now`` the time to write."""

    def __init__(
        self,
        controller: str,
        instance: str,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        options: EventOptions | None = None,
    ) -> None:
        self.options = options if options is not None else EventOptions()
        self._controller = controller
        self._instance = instance
        self._clock = clock
        self._now = now
        remembered = self.options.remembered
        self._series: _Recent[Hashable, Series] = _Recent(remembered)
        self._similar: _Recent[Hashable, _Similar] = _Recent(remembered)
        self._buckets: _Recent[Hashable, _Bucket] = _Recent(remembered)
        self._last_stamp = 0
        self.spam = 0
        """Events dropped by the limit per object."""

    def observe(self, occurrence: Occurrence) -> Series | None:
        """Take note and return the series if it has to be written now.

        None means: counted only, or dropped as spam.
        """
        clock = self._clock()
        combined = self._is_one_of_many(occurrence, clock)
        key: Hashable = (occurrence.group, None if combined else occurrence.note)
        series = self._series.get(key)
        if series is not None and clock - series.seen_at <= self.options.finish_after:
            series.count += 1
            series.last_observed = self._now()
            series.seen_at = clock
            return series if series.count == 2 else None
        if not self._admits(_identity(occurrence.regarding), clock):
            self.spam += 1
            return None
        note = COMBINED + occurrence.note if combined else occurrence.note
        return self._series.put(key, self._begin(occurrence, note, clock))

    def due(self) -> list[Series]:
        """Series to be written because they ended, or grew since the last refresh.

        Ended ones are forgotten.
        """
        clock = self._clock()
        due = []
        for key, series in list(self._series.items.items()):
            ended = clock - series.seen_at > self.options.finish_after
            if ended:
                del self._series.items[key]
            stale = clock - series.written_at >= self.options.refresh_interval
            if series.created and series.count > series.written and (ended or stale):
                due.append(series)
        return due

    def unwritten(self) -> list[Series]:
        """Series with occurrences that are only counted here."""
        return [s for s in self._series.items.values() if s.created and s.count > s.written]

    def wrote(self, series: Series, count: int) -> None:
        """Record that the object now has ``count``."""
        series.created = True
        series.written = count
        series.written_at = self._clock()

    def _is_one_of_many(self, occurrence: Occurrence, clock: float) -> bool:
        similar = self._similar.get(occurrence.group)
        if similar is None or clock - similar.since > self.options.similar_interval:
            similar = self._similar.put(occurrence.group, _Similar(clock))
        if len(similar.notes) < self.options.similar_limit:
            similar.notes.add(occurrence.note)
        return len(similar.notes) >= self.options.similar_limit

    def _admits(self, regarding: Hashable, clock: float) -> bool:
        bucket = self._buckets.get(regarding)
        if bucket is None:
            bucket = self._buckets.put(regarding, _Bucket(float(self.options.burst), clock))
        gained = (clock - bucket.updated) / self.options.refill
        bucket.tokens = min(float(self.options.burst), bucket.tokens + gained)
        bucket.updated = clock
        if bucket.tokens < 1.0:
            return False
        bucket.tokens -= 1.0
        return True

    def _begin(self, occurrence: Occurrence, note: str, clock: float) -> Series:
        now = self._now()
        regarding = dict(occurrence.regarding)
        namespace = regarding.get("namespace") or "default"
        self._last_stamp = max(self._last_stamp + 1, int(now.timestamp() * 1e9))
        name = _event_name(regarding.get("name", ""), f"{self._last_stamp:x}")
        manifest: Manifest = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": format_micro_time(now),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "type": occurrence.type,
            "reason": occurrence.reason,
            "action": occurrence.action,
            "note": _shortened(note),
            "regarding": regarding,
        }
        if occurrence.related is not None:
            manifest["related"] = dict(occurrence.related)
        return Series(namespace, name, manifest, now, clock, written_at=clock)


def _event_name(regarding: str, stamp: str) -> str:
    """Return a name that the server takes, whatever the object is called: `system:x`, 253 characters."""
    fit = _NOT_IN_NAMES.sub("-", regarding.lower())[: _NAME_LIMIT - len(stamp) - 1].strip("-.")
    readable = f"{fit}.{stamp}"
    return stamp if subdomain(readable) else readable


def _identity(reference: Mapping[str, str]) -> tuple[Any, ...]:
    """Return the object, whatever version of it was looked at."""
    return tuple(
        reference.get(name, "") for name in ("apiVersion", "kind", "namespace", "name", "uid")
    )


def _shortened(note: str) -> str:
    encoded = note.encode()
    if len(encoded) <= NOTE_LIMIT:
        return note
    return encoded[: NOTE_LIMIT - 3].decode(errors="ignore") + "..."
