"""Objects in memory, as etcd and the watch cache keep them.

One revision counts all writes. A record is immutable: its bytes are made once, and a watcher or a
snapshot may hold it for as long as it likes. `Record.load()` gives a private copy to change.

Changes are kept for watches that start in the past, as bytes and within a limit over all kinds.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol

import orjson

from ctrlruntime.api.kinds import Manifest

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]
Key = tuple[str, str]
_AFTER_SLASH: Final = chr(ord("/") + 1)
_DECODED_CHANGES: Final = 256
"""Changes that keep their objects decoded: watchers of the present look at them once or twice each."""
_DECODED_SHARE: Final = 16
"""What part of the limit they may take, encoded: decoded they are some ten times as large."""
_OVERHEAD: Final = 1024
"""Bytes of a change's own Python objects."""


class Record:
    """A stored object: the dict (never to be changed), its bytes and its revision."""

    __slots__ = ("_obj", "epoch", "forms", "name", "namespace", "raw", "revision")

    def __init__(self, key: Key, obj: Manifest, revision: int, epoch: int = 0) -> None:
        self.epoch = epoch
        """Generation of the definition (of a custom kind) under which it was written."""
        self.namespace, self.name = key
        obj["metadata"]["resourceVersion"] = str(revision)
        self._obj: Manifest | None = obj
        self.raw = orjson.dumps(obj)
        self.revision = revision
        self.forms: dict[Any, bytes] | None = None

    @property
    def obj(self) -> Manifest:
        """The object; decoded each time once it is history."""
        return self.load() if self._obj is None else self._obj

    def copy(self) -> Record:
        """Return a record of the same object that is archived by itself."""
        other = object.__new__(Record)
        for name in Record.__slots__:
            setattr(other, name, getattr(self, name))
        return other

    def archive(self) -> None:
        """Keep the bytes only, and of the forms those that a webhook converted."""
        if self._obj is None:
            return
        self._obj = None
        self.raw = _fitted(self.raw)
        if self.forms is not None:
            self.forms = {key: raw for key, raw in self.forms.items() if isinstance(key, tuple)}

    @property
    def size(self) -> int:
        """Bytes of the encoded object in all forms."""
        return len(self.raw) + sum(map(len, (self.forms or {}).values()))

    def load(self) -> Manifest:
        loaded: Manifest = orjson.loads(self.raw)
        return loaded

    def form(self, key: object, make: Callable[[], bytes]) -> bytes:
        """Bytes of another form (version, metadata only), made once."""
        if self._obj is None:
            return (self.forms or {}).get(key) or make()
        if self.forms is None:
            self.forms = {}
        made = self.forms.get(key)
        if made is None:
            made = self.forms[key] = make()
        return made

    @property
    def labels(self) -> dict[str, str]:
        return self.obj["metadata"].get("labels") or {}

    @property
    def uid(self) -> str:
        uid: str = self.obj["metadata"]["uid"]
        return uid


def _fitted(raw: bytes) -> bytes:
    """Return a copy without the spare memory that the encoder left: up to half as much again."""
    return bytes(bytearray(raw))


@dataclass(slots=True)
class Change:
    """One write. For DELETED the record is the last state, with the revision of the deletion."""

    type: ChangeType
    revision: int
    record: Record
    previous: Record | None
    lines: dict[Any, bytes] = field(default_factory=dict)
    counted: int = 0
    """Bytes that the history counts for it."""

    @property
    def size(self) -> int:
        previous = self.previous.size if self.previous is not None else 0
        return self.record.size + previous + _OVERHEAD


class Watcher(Protocol):
    """Who is sent the changes of a bucket."""

    def deliver(self, change: Change) -> None:
        """Take a change, without waiting."""

    def forget(self, revision: int) -> None:
        """Change up to this revision are not kept any longer."""


Attach = Callable[[Record], None]
Listener = Callable[["Bucket", Change], None]


class Bucket:
    """All objects of one resource, with the history of their changes."""

    def __init__(self, resource: str, beginning: int = 0) -> None:
        self.resource = resource
        self.records: dict[Key, Record] = {}
        self.history: deque[Change] = deque()
        self.forgotten = beginning
        """Revision of the newest change that is no longer in the history."""
        self.changed = beginning
        self.watchers: dict[int, Watcher] = {}
        self._sorted: list[str] = []

    def get(self, namespace: str, name: str) -> Record | None:
        return self.records.get((namespace, name))

    def __len__(self) -> int:
        return len(self.records)

    def scan(self, namespace: str = "", after: str = "") -> Iterator[Record]:
        """Return records in etcd's order of keys; `after` is the last key already seen."""
        start, stop = self._range(namespace)
        if after:
            start = max(start, bisect_left(self._sorted, after + "\0"))
        for key in self._sorted[start:stop]:
            at, _, name = key.partition("/")
            yield self.records[at, name]

    def _range(self, namespace: str) -> tuple[int, int]:
        if not namespace:
            return 0, len(self._sorted)
        start = bisect_left(self._sorted, f"{namespace}/")
        return start, bisect_left(self._sorted, namespace + _AFTER_SLASH)

    def since(self, revision: int) -> list[Change]:
        """Change after `revision`, oldest first."""
        found: list[Change] = []
        for change in reversed(self.history):
            if change.revision <= revision:
                break
            found.append(change)
        found.reverse()
        return found

    def put(self, key: Key, record: Record) -> None:
        if key not in self.records:
            insort(self._sorted, sort_key(*key))
        self.records[key] = record

    def drop(self, key: Key) -> None:
        del self.records[key]
        del self._sorted[bisect_left(self._sorted, sort_key(*key))]

    def note(self, change: Change) -> None:
        self.changed = change.revision
        self.history.append(change)
        for watcher in tuple(self.watchers.values()):
            watcher.deliver(change)

    def forget_oldest(self) -> Change:
        """Drop the oldest change, and return it: a watch from before it gets 410."""
        change = self.history.popleft()
        self.forgotten = change.revision
        for watcher in tuple(self.watchers.values()):
            watcher.forget(self.forgotten)
        return change


def sort_key(namespace: str, name: str) -> str:
    return f"{namespace}/{name}"


class History:
    """The changes of all buckets in order, bounded by the bytes of their encoded objects.

    The newest keep their objects decoded, and their lines; the others are bytes only.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0
        self._kept: deque[Bucket] = deque()
        self._decoded: deque[tuple[Bucket, Change]] = deque()
        self._decoded_bytes = 0

    def add(self, bucket: Bucket, change: Change) -> None:
        """Count a change that its bucket has noted; forget the oldest beyond the limit."""
        change.counted = change.size
        self.bytes += change.counted
        self._kept.append(bucket)
        self._decoded.append((bucket, change))
        self._decoded_bytes += change.counted
        while self._decoded and self._too_much_is_decoded():
            self._archive()
        while self.bytes > self.limit:
            self.bytes -= self._kept.popleft().forget_oldest().counted

    def _too_much_is_decoded(self) -> bool:
        return (
            len(self._decoded) > _DECODED_CHANGES
            or self._decoded_bytes > self.limit // _DECODED_SHARE
        )

    def _archive(self) -> None:
        bucket, change = self._decoded.popleft()
        self._decoded_bytes -= change.counted
        change.lines.clear()
        if change.previous is not None:
            change.previous.archive()
        key = (change.record.namespace, change.record.name)
        if bucket.records.get(key) is not change.record:
            change.record.archive()
        self.bytes -= change.counted
        change.counted = change.size
        self.bytes += change.counted


class Storage:
    """All buckets and the one revision. Synchronous: whoever holds the loop sees a fixed state.

    `history`: bytes of changes kept for watches.
    """

    def __init__(self, history: int) -> None:
        self.revision = 1
        self.beginning = 0
        """The revision of the snapshot that it started from: of what was before it there is no history."""
        self.history = History(history)
        self._buckets: dict[str, Bucket] = {}
        self.listeners: list[Listener] = []

    def bucket(self, resource: str) -> Bucket:
        found = self._buckets.get(resource)
        if found is None:
            found = self._buckets[resource] = Bucket(resource, self.beginning)
        return found

    def __iter__(self) -> Iterator[Bucket]:
        return iter(list(self._buckets.values()))

    def create(
        self, bucket: Bucket, obj: Manifest, epoch: int = 0, attach: Attach | None = None
    ) -> Record:
        """Store a new object and take the dict over.

        `attach` completes the record before anyone is notified.
        """
        return self._write(bucket, obj, None, epoch, attach)

    def update(
        self,
        bucket: Bucket,
        obj: Manifest,
        previous: Record,
        epoch: int = 0,
        attach: Attach | None = None,
    ) -> Record:
        """Replace `previous`, which must be the current record, and take the dict over."""
        return self._write(bucket, obj, previous, epoch, attach)

    def _write(
        self,
        bucket: Bucket,
        obj: Manifest,
        previous: Record | None,
        epoch: int,
        attach: Attach | None,
    ) -> Record:
        kind: ChangeType = "ADDED" if previous is None else "MODIFIED"
        metadata = obj["metadata"]
        key = (metadata.get("namespace", ""), metadata["name"])
        self.revision += 1
        record = Record(key, obj, self.revision, epoch)
        if attach is not None:
            attach(record)
        bucket.put(key, record)
        self._publish(bucket, Change(kind, self.revision, record, previous))
        return record

    def delete(self, bucket: Bucket, record: Record, last: Manifest | None = None) -> Record:
        """Remove the record. `last`, if given, is the final state shown to watchers."""
        self.revision += 1
        key = (record.namespace, record.name)
        final = Record(key, record.load() if last is None else last, self.revision, record.epoch)
        bucket.drop(key)
        self._publish(bucket, Change("DELETED", self.revision, final, record))
        return final

    def _publish(self, bucket: Bucket, change: Change) -> None:
        bucket.note(change)
        self.history.add(bucket, change)
        for listener in self.listeners:
            listener(bucket, change)
