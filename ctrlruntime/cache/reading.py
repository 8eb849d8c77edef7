"""Answering a list from stores."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeAlias

from ctrlruntime.cache.entry import Entry, Key
from ctrlruntime.cache.errors import UnsupportedRead
from ctrlruntime.cache.store import Store
from ctrlruntime.client.selectors import (
    FieldSelector,
    LabelSelector,
    field_text,
    label_matcher,
    parse_fields,
)

Entries: TypeAlias = list[Entry]
IndexValues: TypeAlias = list[tuple[str, str]]
_NAME = "metadata.name"
_NAMESPACE = "metadata.namespace"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Everything named must hold. ``fields`` other than name and namespace need an index of that name."""

    namespace: str | None = None
    labels: LabelSelector | None = None
    fields: FieldSelector | None = None
    index: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None

    def run(self, stores: Sequence[Store]) -> Entries:
        """Return what is in any of the stores; an object in several comes from the first.

        Stores without one of the indexes are left out: those who share a kind have indexes of their own.
        Raises UnknownIndex if no store has them, UnsupportedRead, InvalidSelector.
        """
        resolved = self._resolve()
        if resolved is None:
            return []
        namespace, name, indexes = resolved
        matches = self._label_predicate()
        found: dict[Key, Entry] = {}
        wanted = {index for index, _ in indexes}
        indexed = [store for store in stores if wanted.issubset(store.indexes)]
        for store in indexed or stores:
            for entry in _candidates(store, namespace, name, indexes):
                if matches is None or matches(entry):
                    found.setdefault(entry.key, entry)
        return list(islice(found.values(), self.limit))

    def _resolve(self) -> tuple[str | None, str | None, IndexValues] | None:
        """Namespace, name and index values; None if no object can have all of them."""
        wanted: dict[str, str | None] = {_NAMESPACE: self.namespace, _NAME: None}
        indexes = list(self.index.items())
        for requirement in parse_fields(field_text(self.fields)):
            path = ".".join(requirement.path)
            if requirement.negated:
                raise UnsupportedRead(
                    f"the cache cannot select by {path}!=...; filter the result, or use manager.live_client"
                )
            if path not in wanted:
                indexes.append((path, requirement.value))
            elif wanted[path] not in (None, requirement.value):
                return None
            else:
                wanted[path] = requirement.value
        return wanted[_NAMESPACE], wanted[_NAME], indexes

    def _label_predicate(self) -> Callable[[Entry], bool] | None:
        if not self.labels:
            return None
        if isinstance(self.labels, Mapping) and all(
            isinstance(value, str) for value in self.labels.values()
        ):
            wanted = self.labels.items()
            return lambda entry: wanted <= entry.labels.items()
        matches = label_matcher(self.labels)
        return lambda entry: matches(entry.labels)


def _candidates(
    store: Store, namespace: str | None, name: str | None, indexes: IndexValues
) -> Iterable[Entry]:
    if indexes:
        found = _by_indexes(store, indexes)
        if namespace is not None:
            found = [entry for entry in found if entry.namespace == namespace]
    elif name is not None and namespace is not None:
        entry = store.get(name, namespace=namespace)
        return () if entry is None else (entry,)
    else:
        found = store.list(namespace)
    if name is not None:
        found = [entry for entry in found if entry.name == name]
    return found


def _by_indexes(store: Store, indexes: IndexValues) -> Entries:
    """Return the rarest first; the others narrow it."""
    ordered = sorted(indexes, key=lambda item: store.count(*item))
    found = store.by_index(*ordered[0])
    for index, value in ordered[1:]:
        keys = {entry.key for entry in store.by_index(index, value)}
        found = [entry for entry in found if entry.key in keys]
    return found
