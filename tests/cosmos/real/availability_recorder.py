"""Watches a set of nodes without a pause: how many were down at once, and how many paused."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from typing import Any, Self

from apis.cosmos import CosmosFullNode
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache import Cache
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.events import DeleteEvent, Event
from ctrlruntime.client.client import Client
from ctrlruntime.controller.predicates import entry_of
from internal.cosmos.labels import BELONGS_TO, NAME

POD = BUILTIN[GroupVersionKind("", "v1", "Pod")]
RUNNING = "Running"


@dataclass
class Watchman:
    """A node is down if it ran before and its Pod does not run now, or is being deleted."""

    namespace: str
    name: str
    wanted: set[str] = field(default_factory=set)
    """Nodes that are to run; the test says so before it asks for fewer."""
    up: set[str] = field(default_factory=set)
    known: set[str] = field(default_factory=set)
    """Nodes that ran at some time."""
    most_down: int = 0
    downs: list[list[str]] = field(default_factory=list)
    """Who was down together when most were."""
    most_paused: int = 0

    @classmethod
    @contextlib.asynccontextmanager
    async def watching(
        cls, client: Client, namespace: str, name: str, wanted: Collection[str]
    ) -> AsyncIterator[Self]:
        """Every event counts: none is left out between two looks."""
        watchman = cls(namespace, name, set(wanted))
        cache = Cache(client)
        pods = cache.declare(POD, namespaces=[namespace])
        sets = cache.declare(CosmosFullNode, namespaces=[namespace])
        pods.informer.add_handler(watchman._pod)
        sets.informer.add_handler(watchman._set)
        await cache.start()
        try:
            await cache.wait_synced(60)
            yield watchman
        finally:
            await cache.stop()

    @property
    def down(self) -> set[str]:
        """Nodes that are down now."""
        return (self.known & self.wanted) - self.up

    def expect(self, wanted: Collection[str]) -> None:
        """From now on these are to run."""
        self.wanted = set(wanted)

    def _pod(self, event: Event) -> None:
        entry = _entry(event)
        if entry.labels.get(NAME) != self.name or BELONGS_TO in entry.labels:
            return
        status: dict[str, Any] = entry.field("status") or {}
        runs = status.get("phase") == RUNNING and _containers_run(status)
        if isinstance(event, DeleteEvent) or entry.deletion_timestamp is not None or not runs:
            self.up.discard(entry.name)
        else:
            self.up.add(entry.name)
            self.known.add(entry.name)
        if len(self.down) >= self.most_down:
            self.most_down = len(self.down)
            self.downs.append(sorted(self.down))

    def _set(self, event: Event) -> None:
        entry = _entry(event)
        if entry.name == self.name and not isinstance(event, DeleteEvent):
            paused = (entry.field("status") or {}).get("scheduledSnapshotStatus") or {}
            self.most_paused = max(self.most_paused, len(paused))


def _entry(event: Event) -> Entry:
    entry = entry_of(event)
    assert entry is not None
    return entry


def _containers_run(status: dict[str, Any]) -> bool:
    return all("running" in each["state"] for each in status.get("containerStatuses") or [])
