"""What index handlers return for each object, by key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from typing import Any, Generic, TypeAlias, TypeVar

from ctrlruntime.cache.entry import Entry
from ctrlruntime.clock import wall
from ctrlruntime.kopf.bodies import Body
from ctrlruntime.kopf.filters import Cause, matches
from ctrlruntime.kopf.handling import Attempts, attempt
from ctrlruntime.kopf.registry import Handler

__all__ = ["Index", "Indices"]

K = TypeVar("K")
V = TypeVar("V")

Entries: TypeAlias = Callable[[], Iterable[Entry]]
CauseOf: TypeAlias = Callable[[Body], Cause]


class Index(Mapping[K, Collection[V]], Generic[K, V]):
    """Values by key; under one key those of all objects that have it. A result that is no mapping has the key None."""

    def __init__(self) -> None:
        self._values: dict[Any, dict[str, Any]] = {}
        self._keys: dict[str, list[Any]] = {}

    def __getitem__(self, key: K) -> Collection[V]:
        return list(self._values[key].values())

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._values))

    def __len__(self) -> int:
        return len(self._values)

    def put(self, uid: str, result: object) -> None:
        """Replace what an object has; None is nothing."""
        self.drop(uid)
        if result is None:
            return
        found = result if isinstance(result, Mapping) else {None: result}
        for key, value in found.items():
            self._values.setdefault(key, {})[uid] = value
        self._keys[uid] = list(found)

    def drop(self, uid: str) -> None:
        """Take away what an object has."""
        for key in self._keys.pop(uid, ()):
            values = self._values[key]
            del values[uid]
            if not values:
                del self._values[key]


class Indices:
    """All indices of an operator. They are filled before the first handler runs."""

    def __init__(self, threads: Executor) -> None:
        self.views: dict[str, Index[Any, Any]] = {}
        self._threads = threads
        self._kinds: list[tuple[list[Handler], Entries, CauseOf]] = []
        self._states: dict[tuple[str, str], Attempts] = {}
        self._filled = False
        self._lock = asyncio.Lock()

    def add(self, handlers: list[Handler], entries: Entries, cause_of: CauseOf) -> None:
        """Add the index handlers of a kind."""
        self.views |= {handler.id: Index() for handler in handlers}
        self._kinds.append((handlers, entries, cause_of))

    async def fill(self) -> None:
        """Index what is there, once."""
        if self._filled:
            return
        async with self._lock:
            kinds, self._kinds = self._kinds, []
            for handlers, entries, cause_of in kinds:
                for entry in entries():
                    await self.update(handlers, cause_of(Body(entry.decode())))
            self._filled = True

    async def update(self, handlers: list[Handler], cause: Cause) -> None:
        """Index one object anew. One whose handler fails keeps no value, and is tried again later."""
        uid = cause.body["metadata"]["uid"]
        for handler in handlers:
            view, state = self.views[handler.id], self._states.get((handler.id, uid))
            state = Attempts() if state is None else state
            if not matches(handler, cause) or state.delayed > wall():
                view.drop(uid)
                continue
            failed = state.retries
            work = attempt(handler, state, cause.kwargs, self._threads, cause.kwargs["logger"])
            view.put(uid, await work)
            self._states.pop((handler.id, uid), None)
            if state.retries > failed and not state.done:
                self._states[handler.id, uid] = state

    def discard(self, handlers: list[Handler], uid: str) -> None:
        """Take an object out that is gone."""
        for handler in handlers:
            self.views[handler.id].drop(uid)
            self._states.pop((handler.id, uid), None)
