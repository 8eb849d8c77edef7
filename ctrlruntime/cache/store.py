"""Entries by key, with indexes. Pure and synchronous; independent of watches and clocks."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TypeAlias

from ctrlruntime.cache.entry import Entry, Key, KindT, is_unreadable, label_value, owner_uids
from ctrlruntime.cache.usercode import EXITS, check_synchronous

IndexFn = Callable[[Entry[KindT]], Iterable[str]]
OnIndexFailure = Callable[[str, Entry, BaseException], None]
"""Called with the index, the entry and the error when an index function fails."""

Entries: TypeAlias = list[Entry]
Values: TypeAlias = list[str]

NAMESPACE = "namespace"
OWNER = "owner"
LABEL_PREFIX = "label:"
_ANY = "\0"
"""Before a namespace: the bucket of its entries that cannot be read, which may have any value."""
_NOTHING: frozenset[str] = frozenset()


class UnknownIndex(LookupError):
    """The index was not added."""


class IndexConflict(ValueError):
    """An index of that name exists with another function."""


class _Index:
    """Values to keys. A bucket of one is the key itself: a set for each would cost 200 bytes more.

    An entry for which the function fails has no values in this index. One that cannot be read is no missing one:
    it is found under every value that begins with its namespace, as ``namespace/name`` does.
    """

    __slots__ = ("buckets", "failed", "fn", "unread")

    def __init__(self, fn: IndexFn, failed: Callable[[Entry, BaseException], None]) -> None:
        self.fn = fn
        self.failed = failed
        self.buckets: dict[str, Key | set[Key]] = {}
        self.unread = False
        """Whether there was an entry that cannot be read."""

    def values(self, entry: Entry) -> frozenset[str]:
        try:
            return frozenset(self.fn(entry))
        except EXITS:
            raise
        except BaseException as error:  # noqa: BLE001 - user code
            self.failed(entry, error)
            if not is_unreadable(error):
                return _NOTHING
            self.unread = True
            return frozenset((_ANY + entry.namespace,))

    def indexed(self, entry: Entry) -> frozenset[str]:
        """Return the values under which ``entry``, an entry of the store, is found.

        Where the function fails, which may be for the first time, all buckets are searched.
        """
        try:
            return frozenset(self.fn(entry))
        except EXITS:
            raise
        except BaseException:  # noqa: BLE001 - user code; reported when the entry was added
            key = entry.key
            return frozenset(
                value
                for value, bucket in self.buckets.items()
                if (key in bucket if isinstance(bucket, set) else key == bucket)
            )

    def change(self, old: Entry | None, new: Entry) -> tuple[frozenset[str], frozenset[str]] | None:
        """Values that go and values that come; None, quickly, if there are none."""
        if old is None:
            return _NOTHING, self.values(new)
        try:
            come, gone = tuple(self.fn(new)), tuple(self.fn(old))
            if come == gone:
                return None
            before, after = frozenset(gone), frozenset(come)
        except EXITS:
            raise
        except BaseException:  # noqa: BLE001 - user code; whichever of the two failed
            before, after = self.indexed(old), self.values(new)
        return before - after, after - before

    def add(self, key: Key, value: str) -> None:
        bucket = self.buckets.get(value)
        if bucket is None:
            self.buckets[value] = key
        elif isinstance(bucket, set):
            bucket.add(key)
        elif bucket != key:
            self.buckets[value] = {bucket, key}

    def discard(self, key: Key, value: str) -> None:
        bucket = self.buckets.get(value)
        if bucket is None:
            return
        if isinstance(bucket, set):
            bucket.discard(key)
            if len(bucket) == 1:
                (self.buckets[value],) = bucket
            return
        if bucket == key:
            del self.buckets[value]

    def keys(self, value: str) -> list[Key]:
        """Sorted, so that readers see the same order on every run."""
        bucket = self.buckets.get(value)
        if self.unread:
            return sorted({*_each(bucket), *_each(self.buckets.get(_any_of(value)))})
        if bucket is None:
            return []
        return sorted(bucket) if isinstance(bucket, set) else [bucket]

    def count(self, value: str) -> int:
        if self.unread:
            return len(self.keys(value))
        bucket = self.buckets.get(value)
        if bucket is None:
            return 0
        return len(bucket) if isinstance(bucket, set) else 1


def _each(bucket: Key | set[Key] | None) -> Iterable[Key]:
    if bucket is None:
        return ()
    return bucket if isinstance(bucket, set) else (bucket,)


def _any_of(value: str) -> str:
    return _ANY + value.partition("/")[0]


class _NamespaceIndex(_Index):
    """Entries of one key are of one namespace: what replaces another changes nothing."""

    __slots__ = ()

    def change(self, old: Entry | None, new: Entry) -> tuple[frozenset[str], frozenset[str]] | None:
        return (_NOTHING, frozenset((new.namespace,))) if old is None else None


class _OwnerIndex(_Index):
    """Most objects have no owner, and of most others it never changes."""

    __slots__ = ()

    def change(self, old: Entry | None, new: Entry) -> tuple[frozenset[str], frozenset[str]] | None:
        if new.owners == (() if old is None else old.owners):
            return None
        return super().change(old, new)


class Store:
    """The objects of one kind.

    Built-in indexes: ``namespace``, ``owner`` (owner uid), and ``label:<key>`` once added with
    ``add_index("label:<key>")``. Index reads are sorted by key; full reads come in order of arrival.
    """

    def __init__(
        self,
        indexes: Mapping[str, IndexFn] | None = None,
        *,
        on_index_failure: OnIndexFailure | None = None,
    ) -> None:
        self._entries: dict[Key, Entry] = {}
        self.get_by_key: Callable[[Key], Entry | None] = self._entries.get
        """Return the entry of a key, or None. Of the dict itself: it is called a dozen times for each write."""
        self._on_index_failure = on_index_failure
        self._indexes: dict[str, _Index] = {
            NAMESPACE: _NamespaceIndex(_namespace, self._failed(NAMESPACE)),
            OWNER: _OwnerIndex(owner_uids, self._failed(OWNER)),
        }
        self._bytes = 0
        for name, fn in (indexes or {}).items():
            self.add_index(name, fn)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    @property
    def bytes(self) -> int:
        """JSON bytes held by all entries."""
        return self._bytes

    @property
    def indexes(self) -> tuple[str, ...]:
        return tuple(self._indexes)

    def get(self, name: str, *, namespace: str) -> Entry | None:
        return self._entries.get((namespace, name))

    def keys(self) -> list[Key]:
        return list(self._entries)

    def list(
        self,
        namespace: str | None = None,
        labels: Mapping[str, str] | Callable[[Entry], bool] | None = None,
        limit: int | None = None,
    ) -> Entries:
        """Entries of one namespace (None: all) that carry all of ``labels`` or satisfy the predicate."""
        matches = _label_predicate(labels)
        found: Iterable[Entry]
        if namespace is not None:
            found = self.by_index(NAMESPACE, namespace)
        elif isinstance(labels, Mapping) and (indexed := self._label_index(labels)):
            found = self.by_index(*indexed)
        else:
            found = self._entries.values()
        if matches is not None:
            found = filter(matches, found)
        return list(islice(found, limit))

    def by_index(self, index: str, value: str) -> Entries:
        """Raise UnknownIndex for an index that was not added."""
        entries = self._entries
        return [entries[key] for key in self._index(index).keys(value)]

    def count(self, index: str, value: str) -> int:
        return self._index(index).count(value)

    def index_values(self, index: str) -> Values:
        """Return the values in use; empty buckets are removed, so each has at least one object."""
        return [value for value in self._index(index).buckets if not value.startswith(_ANY)]

    def add_index(self, name: str, fn: IndexFn | None = None) -> None:
        """Add an index over all entries, also those already here. Adding the same again is a no-op."""
        if fn is None:
            if not name.startswith(LABEL_PREFIX):
                if name in self._indexes:
                    return
                raise ValueError(f"index {name!r} needs a function; only label:<key> goes without")
            if name in self._indexes:
                return
            fn = label_value(name.removeprefix(LABEL_PREFIX))
        existing = self._indexes.get(name)
        if existing is not None:
            if existing.fn is fn:
                return
            raise IndexConflict(f"index {name!r} already exists with another function")
        self._build_index(name, fn)

    def replace_index(self, name: str, fn: IndexFn) -> IndexFn | None:
        """Build an index by another function. Returns the former, None if there was none of that name."""
        existing = self._indexes.get(name)
        self._build_index(name, fn)
        return None if existing is None else existing.fn

    def _build_index(self, name: str, fn: IndexFn) -> None:
        check_synchronous(fn, f"index function {name!r}")
        index = _Index(fn, self._failed(name))
        for key, entry in self._entries.items():
            for value in index.values(entry):
                index.add(key, value)
        self._indexes[name] = index

    def put(self, entry: Entry) -> Entry | None:
        """Add or replace. Return the entry that was there.

        An entry for which an index function fails is kept; that index does not find it, unless it cannot be read:
        then it is found under every value that begins with its namespace.
        """
        key = (entry.namespace, entry.name)
        old = self._entries.get(key)
        changes: list[tuple[_Index, tuple[frozenset[str], frozenset[str]]]] = [
            (index, change)
            for index in self._indexes.values()
            if (change := index.change(old, entry)) is not None
        ]
        for index, (gone, come) in changes:
            for value in gone:
                index.discard(key, value)
            for value in come:
                index.add(key, value)
        self._bytes += entry.size if old is None else entry.size - old.size
        self._entries[key] = entry
        return old

    def remove(self, key: Key) -> Entry | None:
        """Remove and return what was there."""
        old = self._entries.pop(key, None)
        if old is None:
            return None
        self._bytes -= old.size
        for index in self._indexes.values():
            for value in index.indexed(old):
                index.discard(key, value)
        return old

    def _failed(self, name: str) -> Callable[[Entry, BaseException], None]:
        def failed(entry: Entry, error: BaseException) -> None:
            if self._on_index_failure is not None:
                self._on_index_failure(name, entry, error)

        return failed

    def _index(self, name: str) -> _Index:
        index = self._indexes.get(name)
        if index is None:
            known = ", ".join(sorted(self._indexes))
            raise UnknownIndex(f"no index {name!r}; add it with add_index. There are: {known}")
        return index

    def _label_index(self, labels: Mapping[str, str]) -> tuple[str, str] | None:
        for label, value in labels.items():
            if (name := LABEL_PREFIX + label) in self._indexes:
                return name, value
        return None


def _namespace(entry: Entry) -> Iterable[str]:
    return (entry.namespace,)


def _label_predicate(
    labels: Mapping[str, str] | Callable[[Entry], bool] | None,
) -> Callable[[Entry], bool] | None:
    if labels is None:
        return None
    if not isinstance(labels, Mapping):
        return labels
    wanted = labels.items()
    return lambda entry: wanted <= entry.labels.items()
