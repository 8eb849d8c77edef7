"""Which pages have changed: streams wait here for changes of what they show."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """What a page shows: objects of kinds, in a namespace or all, perhaps only one."""

    kinds: frozenset[str]
    namespace: str = ""
    name: str = ""

    def covers(self, kind: str, namespace: str, name: str) -> bool:
        """Return whether an object is among them."""
        return kind in self.kinds and self.namespace in {"", namespace} and self.name in {"", name}


@dataclass(slots=True, eq=False)
class Subscription:
    """One page that is followed. However many changes there are, they are one until it is taken."""

    topics: tuple[Topic, ...]
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def notify(self) -> None:
        """Record a change."""
        self._changed.set()

    async def wait(self) -> None:
        """Return once something has changed since the last return."""
        await self._changed.wait()
        self._changed.clear()


class TooManyStreams(Exception):
    """As many pages are followed as may be."""


class Changes:
    """The pages that are followed, by whom nothing is queued."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._subscriptions: set[Subscription] = set()

    def __len__(self) -> int:
        return len(self._subscriptions)

    @contextmanager
    def subscribed(self, *topics: Topic) -> Iterator[Subscription]:
        """Follow topics for the length of a block. Raises TooManyStreams."""
        if len(self._subscriptions) >= self._most:
            raise TooManyStreams
        subscription = Subscription(topics)
        self._subscriptions.add(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.discard(subscription)

    def publish(self, kind: str, namespace: str, name: str) -> None:
        """Notify the pages that show an object."""
        for each in self._subscriptions:
            if any(topic.covers(kind, namespace, name) for topic in each.topics):
                each.notify()
