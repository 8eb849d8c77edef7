"""A cache of nodes, the Pods that its informer would know, and the server that plays their nodes."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any, Self

from prometheus_client import CollectorRegistry

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.api.scalars import format_time
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.queue import Request
from ctrlruntime.resources.ordinal import ORDINAL
from internal.cosmos.cache.cosmos_cache import CacheOptions, CosmosCache
from internal.cosmos.cache.observation import Observation
from internal.cosmos.labels import BELONGS_TO
from tests.cosmos.servers.comet import CometNodes

POD = EntryDecoder(GroupVersionKind("", "v1", "Pod"))
NAMESPACE = "default"
PATIENCE = 120.0
"""Seconds that anything may take on a busy machine."""
QUICK = CacheOptions(interval=0.02, deadline=30.0, disk_interval=0.02)
LONG_AGO = datetime.now(UTC) - timedelta(hours=1)


def pod(
    name: str,
    ordinal: int,
    *,
    uid: str,
    address: str = "",
    port: int = 26657,
    ready: datetime | None = LONG_AGO,
    deleted: bool = False,
    beside: str = "",
    phase: str = "Running",
) -> Entry:
    """A Pod of a node as the informer has it."""
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": NAMESPACE,
        "uid": uid,
        "annotations": {ORDINAL: str(ordinal)},
    }
    if deleted:
        metadata["deletionTimestamp"] = format_time(LONG_AGO)
    if beside:
        metadata["labels"] = {BELONGS_TO: beside}
    containers = [
        {"name": "node", "ports": [{"name": "rpc", "containerPort": port}]},
        {"name": "healthcheck", "ports": [{"name": "health", "containerPort": port}]},
    ]
    condition = {"type": "Ready", "status": "True" if ready else "False"}
    if ready:
        condition["lastTransitionTime"] = format_time(ready)
    status: dict[str, Any] = {"phase": phase, "conditions": [condition]}
    if address:
        status["podIP"] = address
    return POD.decode_manifest(
        {"metadata": metadata, "spec": {"containers": containers}, "status": status}
    )


@dataclass(slots=True)
class Nodes:
    """What runs, and the words of the tests."""

    comet: CometNodes
    cache: CosmosCache
    registry: CollectorRegistry
    pods: dict[str, dict[str, Entry]] = field(default_factory=dict)
    told: list[Request] = field(default_factory=list)
    disks_told: list[Request] = field(default_factory=list)
    _numbers: Any = field(default_factory=count)

    @classmethod
    @contextlib.asynccontextmanager
    async def start(
        cls, options: CacheOptions = QUICK, *, now: Callable[[], datetime] | None = None
    ) -> AsyncIterator[Self]:
        async with CometNodes.start() as comet:
            pods: dict[str, dict[str, Entry]] = {}
            registry = CollectorRegistry()
            clock = {} if now is None else {"now": now}
            cache = CosmosCache(
                lambda _namespace, name: pods.get(name, {}).values(), options, registry, **clock
            )
            nodes = cls(comet, cache, registry, pods)
            cache.subscribe(nodes.told.append)
            cache.subscribe_disks(nodes.disks_told.append)
            try:
                yield nodes
            finally:
                await cache.close()

    def add(self, *ordinals: int, name: str = "hub", **fields: object) -> None:
        """Make Pods, each with an address of its own, or make them anew."""
        for ordinal in ordinals:
            number = next(self._numbers)
            address = f"127.130.{number // 250}.{number % 250 + 1}"
            self.comet.place(address, f"{name}-{ordinal}")
            given: dict[str, Any] = {"uid": f"uid-{number}", "address": address}
            given |= {"port": self.comet.port, **fields}
            self.put(pod(f"{name}-{ordinal}", ordinal, **given), name)

    def put(self, entry: Entry, name: str = "hub") -> None:
        """The informer hears of a Pod."""
        self.pods.setdefault(name, {})[entry.name] = entry

    def mark_deleted(self, pod_name: str, name: str = "hub") -> None:
        """A Pod is on its way out."""
        manifest = self.pods[name][pod_name].decode()
        manifest["metadata"]["deletionTimestamp"] = format_time(LONG_AGO)
        self.put(POD.decode_manifest(manifest), name)

    def remove(self, pod_name: str, name: str = "hub") -> None:
        """A Pod is gone."""
        del self.pods[name][pod_name]

    def follow(
        self, name: str = "hub", *, folder: str = "", boundaries: Iterable[int] = ()
    ) -> None:
        """What the controller does when Pods changed."""
        self.cache.follow(NAMESPACE, name, folder=folder, boundaries=boundaries)

    def collect(self, name: str = "hub") -> list[Observation]:
        return self.cache.collect(NAMESPACE, name)

    def of(self, pod_name: str, name: str = "hub") -> Observation:
        (found,) = [each for each in self.collect(name) if each.pod == pod_name]
        return found

    def heights(self, name: str = "hub") -> list[int | None]:
        return [each.height for each in self.collect(name)]

    def sample(self, metric: str, **labels: str) -> float:
        return self.registry.get_sample_value(metric, labels) or 0.0
