"""Reads the fleet that a rollout decides on from the cache."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Protocol

from apis.cloud import FleetRolloutSpec
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.store import NAMESPACE
from ctrlruntime.controller.loop_yielder import LoopYielder
from ctrlruntime.memo import VersionMemo
from internal.cloud.rollouts.members import (
    Fleet,
    FleetInstance,
    fleet_instance,
    fleet_of,
    newer_rollouts,
)


class Entries(Protocol):
    """The objects of one kind as the cache has them."""

    def get(self, name: str, *, namespace: str) -> Entry | None: ...
    def by_index(self, index: str, value: str) -> Iterable[Entry]: ...


def _as_it_is(entry: Entry) -> Entry:
    return entry


@dataclass(slots=True)
class FleetReader:
    """Reads rollouts and the instances of their namespaces. Makes each version of an instance once."""

    rollouts: Entries
    instances: Entries
    counted: Callable[[Entry], Entry] = _as_it_is
    """Return a rollout as far as it counts."""
    yielder: LoopYielder = field(default_factory=LoopYielder)
    """Yields to other tasks between instances: a fleet has up to 10,000."""
    _memo: VersionMemo[str, FleetInstance] = field(
        default_factory=lambda: VersionMemo(20_000), init=False
    )

    async def read(
        self, entry: Entry, spec: FleetRolloutSpec, now: datetime
    ) -> tuple[Fleet, dict[str, Entry]]:
        """Return the fleet of a rollout, and by name the instances of its namespace that it was made from."""
        listed = sorted(self.instances.by_index(NAMESPACE, entry.namespace), key=attrgetter("name"))
        found = []
        for item in listed:
            found.append(self._memo.compute(item.uid, item.resource_version, _maker(item)))
            await self.yielder.maybe_yield()
        newer = newer_rollouts(entry, self.rollouts.by_index(NAMESPACE, entry.namespace))
        fleet = fleet_of(entry.name, spec, found, newer, now)
        await self.yielder.maybe_yield()  # each step takes 30 ms for 10,000 instances
        return fleet, {item.name: item for item in listed}


def _maker(entry: Entry) -> Callable[[], FleetInstance]:
    return lambda: fleet_instance(entry)
