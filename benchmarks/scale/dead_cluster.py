"""What one stopped cluster costs the others of the same process.

One manager, twenty clusters. In turns the last one answers, and is stopped in the middle of its work (SIGSTOP). Each
turn creates ConfigMaps in the others and takes the time from the answer to the creation until the reconcile, which
writes once, has ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.frame import report_progress
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.cluster import ClusterSet
from ctrlruntime.controller import Builder, Request
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.manager import Manager, ManagerOptions
from ctrlruntime.manager.logs import make_logger

CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
TURNS = 3
OBJECTS = 30
"""ConfigMaps in each cluster in each half of a turn."""
LIMIT = 180.0
"""Seconds that nothing takes."""


@dataclass(frozen=True, slots=True)
class DeadCluster:
    """What was found."""

    p99_ratio: float
    """With one cluster stopped, to all clusters running; the least of the turns of each, by 99th percentile."""
    lost: int
    """Objects that were not reconciled, those of the stopped cluster after it went on included."""


@dataclass(slots=True)
class Clusters:
    """The manager's clusters, and when which object was reconciled."""

    manager: Manager
    clients: list[Client]
    process: ChildProcess
    """The server of the last cluster."""
    ended: dict[tuple[str, str], float] = field(default_factory=dict)

    async def reconcile(self, request: Request) -> None:
        """Write once to each object."""
        client = self.manager.client_of(request.cluster)
        key = request.cluster, request.name
        if key in self.ended:
            return  # the event of the own write
        patch = {"metadata": {"annotations": {"reconciled": "true"}}}
        await client.patch(CONFIG_MAP, request.name, patch, namespace=request.namespace)
        self.ended[key] = time.monotonic()

    async def half(self, turn: int, *, stopped: bool) -> tuple[float, int]:
        """Return the 99th percentile of the others, in seconds, and how many objects were lost."""
        prefix = f"{'stopped' if stopped else 'none'}-{turn}"
        last, others = len(self.clients) - 1, self.clients[:-1]
        names = [f"{prefix}-{number}" for number in range(OBJECTS)]
        if stopped:
            for name in names:
                await self.clients[last].create(config_map(name))
            os.kill(self.process.pid, signal.SIGSTOP)
        created: dict[tuple[str, str], float] = {}
        try:
            for name in names:
                for number, client in enumerate(others):
                    await client.create(config_map(name))
                    created[cluster_name(number), name] = time.monotonic()
            await self._wait_for(created)
        finally:
            if stopped:
                os.kill(self.process.pid, signal.SIGCONT)
        expected = dict(created)
        if stopped:
            expected |= {(cluster_name(last), name): 0.0 for name in names}
            await self._wait_for(expected)
        took = [self.ended[key] - began for key, began in created.items() if key in self.ended]
        return percentile(took, 0.99), sum(key not in self.ended for key in expected)

    async def _wait_for(self, keys: dict[tuple[str, str], float]) -> None:
        deadline = time.monotonic() + LIMIT
        while not self.ended.keys() >= keys.keys():
            if time.monotonic() > deadline:
                return
            await asyncio.sleep(0.1)


async def measure(folder: Path, count: int) -> DeadCluster:
    """Start `count` clusters and a manager, and compare."""
    command = [sys.executable, "-m", "benchmarks.scale.servers", "--count"]
    log = folder / "servers.log"
    processes = [
        await ChildProcess.start([*command, str(number)], log=log, timeout=LIMIT)
        for number in (count - 1, 1)
    ]
    urls = [url for each in processes for url in each.facts["urls"]]
    clients = [Client.connect(Config(host=url)) for url in urls]
    options = ManagerOptions(metrics_bind_address="0", health_bind_address="0")
    output = (folder / "manager.log").open("a")
    manager = Manager(Config(host=urls[0]), options, logger=make_logger(stream=output))
    clusters = Clusters(manager, clients, processes[1])
    Builder(manager).named("dead-cluster").for_(CONFIG_MAP, cluster=ClusterSet.ENGAGED).build(
        clusters.reconcile
    )
    for number, url in enumerate(urls):
        await manager.engage(manager.new_cluster(cluster_name(number), Config(host=url)))
    try:
        async with manager.running():
            return await _compare(clusters)
    finally:
        await asyncio.gather(*(each.close() for each in clients))
        await asyncio.gather(*(each.stop(grace=0) for each in processes))
        output.close()


async def _compare(clusters: Clusters) -> DeadCluster:
    percentiles: dict[bool, list[float]] = {False: [], True: []}
    lost = 0
    await clusters.half(-1, stopped=False)  # connections are opened, code is warm
    for turn in range(TURNS):
        for stopped in (False, True):
            found, missing = await clusters.half(turn, stopped=stopped)
            percentiles[stopped].append(found)
            lost += missing
            report_progress(f"turn {turn}, stopped: {stopped}: p99 {found * 1000:.1f} ms")
    return DeadCluster(round(min(percentiles[True]) / min(percentiles[False]), 2), lost)


def cluster_name(number: int) -> str:
    """Return the name of a cluster."""
    return f"c{number}"


def config_map(name: str) -> dict[str, Any]:
    """Return a ConfigMap."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


def percentile(values: list[float], share: float) -> float:
    """Return the smallest value that so large a share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
