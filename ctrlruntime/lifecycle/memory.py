"""What a controller remembers of objects: it goes with its object, and with the object's slot.

failures = PerObject[int](informer)
failures.put(request, failures.get(request, 0) + 1)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Generic, Protocol, TypeVar, overload

from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.events import DeleteEvent, Event, UpdateEvent
from ctrlruntime.queue import Request

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
D = TypeVar("D")


class Objects(Protocol):
    """The objects of a kind as the cache has them; a store of an informer."""

    def get(self, name: str, *, namespace: str) -> Entry | None: ...
    def count(self, index: str, value: str) -> int: ...


class Informer(Protocol):
    """The informer of a kind."""

    @property
    def store(self) -> Objects: ...
    def add_handler(self, handler: EventHandler, /) -> object: ...
    def add_drop_handler(self, handler: Callable[[Entry], None], /) -> None: ...


class EventHandler(Protocol):
    """A function of an event."""

    def __call__(self, event: Event, /) -> None: ...


class _Memory(Generic[K, T]):
    """State by key. Without an informer it is kept until `forget`."""

    def __init__(self, informer: Informer | None = None) -> None:
        self._kept: dict[K, T] = {}
        self._store = None if informer is None else informer.store
        if informer is not None:
            informer.add_handler(self.observe)
            informer.add_drop_handler(lambda entry: self.forget(self._key_of(entry)))

    @overload
    def get(self, key: K) -> T | None: ...
    @overload
    def get(self, key: K, default: D) -> T | D: ...
    def get(self, key: K, default: D | None = None) -> T | D | None:
        """Return what is kept of an object, or the default."""
        return self._kept.get(key, default)

    def put(self, key: K, value: T) -> T:
        """Keep a value in place of the object's last one, and return it. Of an object that is gone nothing is kept."""
        if not self.is_gone(key):  # a reconcile may end after the event that reports the deletion
            self._kept[key] = value
        return value

    def forget(self, key: K) -> None:
        """Drop what is kept of an object."""
        self._kept.pop(key, None)

    def observe(self, event: Event) -> None:
        """Drop what is kept of an object that is gone, or that another one of its name replaced."""
        if isinstance(event, UpdateEvent) and event.old.uid == event.new.uid:
            return
        if isinstance(event, UpdateEvent | DeleteEvent):
            self.forget(self._key_of(event.old))

    def is_gone(self, key: K) -> bool:
        """Whether the cache has no such object."""
        raise NotImplementedError

    def _key_of(self, entry: Entry) -> K:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[K]:
        return iter(self._kept)


class PerObject(_Memory[Request, T]):
    """State by namespace and name: for what is known of an object from request to request."""

    def is_gone(self, key: Request) -> bool:
        """Whether the cache has no object of that namespace and name."""
        store = self._store
        return store is not None and store.get(key.name, namespace=key.namespace) is None

    def _key_of(self, entry: Entry) -> Request:
        return Request(entry.name, namespace=entry.namespace)


class PerUID(_Memory[str, T]):
    """State by UID: for what must not pass to a successor of the same name."""

    def is_gone(self, key: str) -> bool:
        """Whether the cache has no object of that UID."""
        return self._store is not None and not self._store.count("uid", key)

    def _key_of(self, entry: Entry) -> str:
        return entry.uid
