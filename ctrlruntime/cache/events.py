"""What an informer tells its handlers. Events follow the store exactly: each is one change of it."""

import typing
from collections.abc import Callable
from dataclasses import dataclass

from ctrlruntime.cache.entry import Entry, Key, KindT


@dataclass(slots=True)
class CreateEvent(typing.Generic[KindT]):
    """``initial``: the object was there when the handler began to listen."""

    new: Entry[KindT]
    initial: bool = False


@dataclass(slots=True)
class UpdateEvent(typing.Generic[KindT]):
    """A changed uid means that the object was deleted and created again between two events.

    ``own``: the change is what a write of this process's cached client made, and nothing else.
    """

    old: Entry[KindT]
    new: Entry[KindT]
    own: bool = False


@dataclass(slots=True)
class DeleteEvent(typing.Generic[KindT]):
    """``old`` is the last known state; ``unknown``: noticed by a relist, the real last state was missed."""

    old: Entry[KindT]
    unknown: bool = False


@dataclass(slots=True)
class GenericEvent(typing.Generic[KindT]):
    """Something from outside the API server, about ``key`` and perhaps the entry it names."""

    entry: Entry[KindT] | None = None
    key: Key | None = None


Event = CreateEvent[KindT] | UpdateEvent[KindT] | DeleteEvent[KindT] | GenericEvent[KindT]
"""What happened to an object, as handlers and predicates receive it."""
EventHandler = Callable[[Event[typing.Any]], None]
