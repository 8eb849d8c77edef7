"""`make bench-capacity OBJECTS=...`: how far one process goes; one line of JSON.

A list of OBJECTS Deployments of 3.5 KB (seconds, peak memory), as many changes of them from the socket to
the queue, and reads from the cache. Rates are by processor time, so that what else the machine does matters less.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
import uvloop

from benchmarks.cache import deployment
from benchmarks.frame import print_figures, resident_mib
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.events import Event, UpdateEvent
from ctrlruntime.client.config import Config
from ctrlruntime.controller import Builder, Request
from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.manager import Manager, ManagerOptions
from ctrlruntime.manager.watchdog import GCOptions

DEPLOYMENT = BUILTIN[GroupVersionKind("apps", "v1", "Deployment")]
READS = 20_000
LIMIT = 1800.0
"""Seconds for each part, whatever else the machine does."""


@dataclass(slots=True)
class Capacity:
    """The last line."""

    objects: int
    list_seconds: float = 0.0
    list_cpu_seconds: float = 0.0
    list_peak_mib: float = 0.0
    """Resident memory at most until the list is in the cache, less what was there before it."""
    kib_per_object: float = 0.0
    objects_per_gib: int = 0
    events_per_cpu_second: int = 0
    manifests_read_per_cpu_second: int = 0
    entries_read_per_cpu_second: int = 0


class Changes:
    """A predicate that counts updates."""

    def __init__(self, expected: int) -> None:
        self._left = expected
        self.done = asyncio.Event()

    def __call__(self, event: Event) -> bool:
        if isinstance(event, UpdateEvent):
            self._left -= 1
            if not self._left:
                self.done.set()
        return True


async def measure(url: str, objects: int) -> Capacity:
    """Run a manager on the prepared server."""
    found = Capacity(objects)
    changes, finished = Changes(objects), asyncio.Event()

    async def reconcile(_request: Request) -> None:
        await finished.wait()  # nothing is taken out of the queue

    options = ManagerOptions(
        name="capacity",
        metrics_bind_address="0",
        health_bind_address="0",
        gc=GCOptions(manage=True),
    )
    manager = Manager(Config(host=url), options)
    Builder(manager).for_(DEPLOYMENT, predicates=(changes,)).build(reconcile)
    before, started, cpu = resident_mib(), time.monotonic(), time.process_time()
    async with manager.running(), asyncio.timeout(LIMIT):
        await manager.cache.wait_synced()
        found.list_seconds = round(time.monotonic() - started, 2)
        found.list_cpu_seconds = round(time.process_time() - cpu, 2)
        found.list_peak_mib = round(peak_mib() - before, 1)
        gc.collect()
        found.kib_per_object = round((resident_mib() - before) * 1024 / objects, 2)
        found.objects_per_gib = int(1024 * 1024 / found.kib_per_object)
        cpu = time.process_time()
        await manager.live_client.transport.request("GET", "/go")
        await changes.done.wait()
        found.events_per_cpu_second = int(objects / (time.process_time() - cpu))
        cache, names = manager.cache, [deployment(n, 1)["metadata"]["name"] for n in range(1000)]
        found.manifests_read_per_cpu_second = rate(
            lambda n: cache.get(DEPLOYMENT, names[n % 1000], namespace="tenants")
        )
        found.entries_read_per_cpu_second = rate(
            lambda n: cache.entry(DEPLOYMENT, names[n % 1000], namespace="tenants")
        )
        finished.set()
    return found


def rate(read: Callable[[int], object]) -> int:
    """Calls in a second of processor time, the best of three rounds."""
    best = float("inf")
    for _ in range(3):
        started = time.process_time()
        for number in range(READS):
            read(number)
        best = min(best, time.process_time() - started)
    return int(READS / best)


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def run(objects: int) -> Capacity:
    command = [sys.executable, "-m", "benchmarks.runtime.wire"]
    command += ["--objects", str(objects), "--events", str(objects)]
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        log = Path(folder) / "wire.log"
        server = await ChildProcess.start(command, log=log, timeout=LIMIT)
        try:
            return await measure(server.facts["url"], objects)
        finally:
            await server.stop(grace=0)


@click.command()
@click.option("--objects", default=50_000)
def main(objects: int) -> None:
    """Measure how far one process goes."""
    print_figures(uvloop.run(run(objects)))


if __name__ == "__main__":
    main()
