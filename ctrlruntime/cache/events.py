"""What an informer tells its handlers. Events follow the store exactly: each is one change of it."""

from collections.abc import Callable
from dataclasses import dataclass

from ctrlruntime.cache.entry import Entry, Key


@dataclass(slots=True)
class Created:
    """``initial``: the object was there when the handler began to listen."""

    new: Entry
    initial: bool = False


@dataclass(slots=True)
class Updated:
    """A changed uid means that the object was deleted and created again between two events."""

    old: Entry
    new: Entry


@dataclass(slots=True)
class Deleted:
    """``old`` is the last known state; ``unknown``: noticed by a relist, the real last state was missed."""

    old: Entry
    unknown: bool = False


@dataclass(slots=True)
class Generic:
    """Something from outside the API server, about ``key`` and perhaps the entry it names."""

    entry: Entry | None = None
    key: Key | None = None


Event = Created | Updated | Deleted | Generic
"""What happened to an object, as handlers and predicates are told."""
EventHandler = Callable[[Event], None]
