"""Counts of instances by version, phase and type, kept as the cache changes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any

from prometheus_client import CollectorRegistry, Gauge

from apis.cloud.common import Phase
from ctrlruntime.cache import CreateEvent, DeleteEvent, Entry, Event, UpdateEvent
from internal.cloud.labels import INSTANCE_TYPE

Key = tuple[str, str, str]


class InstanceMetrics:
    """How many instances run which version, in which phase and of which type. A runnable: they are counted once, by who leads."""

    def __init__(self, registry: CollectorRegistry, instances: Iterable[Entry] = ()) -> None:
        self._instances = instances
        self._counts_now = False
        self._keys: dict[str, Key] = {}
        self._counts: Counter[Key] = Counter()
        self.instances = Gauge(
            "cloud_instances",
            "Instances by deployed version, phase and type.",
            ("version", "phase", "type"),
            registry=registry,
        )

    async def start(self) -> None:
        """Count until cancelled."""
        self._counts_now = True
        for entry in self._instances:
            self._replace(entry.uid, _key(entry))
        await asyncio.Event().wait()

    def observe(self, event: Event[Any]) -> None:
        """Take over an event of the informer of instances."""
        if not self._counts_now:
            return
        if isinstance(event, UpdateEvent | DeleteEvent):
            self._replace(event.old.uid, None)
        if isinstance(event, CreateEvent | UpdateEvent):
            self._replace(event.new.uid, _key(event.new))

    def _replace(self, uid: str, key: Key | None) -> None:
        before = self._keys.pop(uid, None)
        if key is not None:
            self._keys[uid] = key
        for each, step in ((before, -1), (key, 1)):
            if each is not None:
                self._counts[each] += step
                self._show(each)

    def _show(self, key: Key) -> None:
        if self._counts[key]:
            self.instances.labels(*key).set(self._counts[key])
        else:
            del self._counts[key]
            self.instances.remove(*key)


def _key(entry: Entry) -> Key:
    status = entry.field("status") or {}
    version, phase = str(status.get("version", "")), str(status.get("phase") or Phase.PENDING)
    if phase == Phase.READY and status.get("observedGeneration") != entry.generation:
        phase = Phase.PENDING.value  # of the spec as it is now nothing was observed
    return version, phase, entry.labels.get(INSTANCE_TYPE, "")
