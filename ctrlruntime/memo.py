"""Results that are computed once for each version of what they are computed from."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class VersionMemo(Generic[K, V]):
    """Results by key, each valid for one version of its input.

    With a `limit` the results that were not used for longest are dropped; otherwise call `forget` for keys
    that are gone.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._results: OrderedDict[K, tuple[Hashable, V]] = OrderedDict()

    def get(self, key: K, version: Hashable) -> V | None:
        """Return the result for this version of the key, or None."""
        known = self._results.get(key)
        if known is None or known[0] != version:
            return None
        self._results.move_to_end(key)
        return known[1]

    def put(self, key: K, version: Hashable, result: V) -> V:
        """Keep a result in place of the key's last one, and return it."""
        self._results[key] = (version, result)
        self._results.move_to_end(key)
        if self._limit is not None and len(self._results) > self._limit:
            self._results.popitem(last=False)
        return result

    def compute(self, key: K, version: Hashable, make: Callable[[], V]) -> V:
        """Return the result for this version of the key; call `make` if there is none. It may be None."""
        known = self._results.get(key)
        if known is None or known[0] != version:
            return self.put(key, version, make())
        self._results.move_to_end(key)
        return known[1]

    def forget(self, key: K) -> V | None:
        """Drop the key's result, and return it."""
        known = self._results.pop(key, None)
        return None if known is None else known[1]

    def __len__(self) -> int:
        return len(self._results)
