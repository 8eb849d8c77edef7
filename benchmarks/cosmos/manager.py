"""The manager of the bench, a process of its own: `python -m benchmarks.cosmos.manager KUBECONFIG REPORT`.

It has the options of `manager run`, but opens no ports. When it is told to stop it writes what its
metrics say to REPORT, as JSON.
"""

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from ctrlruntime.client.config import Config
from ctrlruntime.manager import Manager
from ctrlruntime.manager import run as run_on_uvloop
from ctrlruntime.manager.logs import configure
from manager.controllers.cosmos import add_cosmos
from manager.options import RunOptions

DURATIONS = "controller_runtime_reconcile_time_seconds"
QUESTIONS = "cosmos_cache_questions"


def options() -> RunOptions:
    """What `manager run` would be told."""
    return RunOptions(systems=("cosmos",), metrics_bind_address="0", health_probe_bind_address="0")


def samples(manager: Manager, family: str) -> Iterator[Any]:
    """The samples of one family."""
    for each in manager.metrics.registry.collect():
        if each.name == family:
            yield from each.samples


def durations(manager: Manager) -> dict[str, float]:
    """Reconciles by upper bound of their length in seconds, cumulative, all controllers together."""
    found: dict[str, float] = {}
    for sample in samples(manager, DURATIONS):
        if sample.name.endswith("_bucket"):
            bound = sample.labels["le"]
            found[bound] = found.get(bound, 0.0) + sample.value
    return found


def questions(manager: Manager) -> float:
    """What the cache asked nodes and disks."""
    told = samples(manager, QUESTIONS)
    return float(sum(sample.value for sample in told if sample.name.endswith("_total")))


async def main(kubeconfig: str, report: Path) -> None:
    """Run until told to stop."""
    given = options()
    logger = configure(format=given.log_format, level=given.log_level)
    manager = Manager(await Config.load(kubeconfig), given.manager_options(), logger=logger)
    add_cosmos(manager, given.cosmos)
    try:
        await manager.start()
    finally:
        seen = {"durations": durations(manager), "questions": questions(manager)}
        await asyncio.to_thread(report.write_bytes, orjson.dumps(seen))


if __name__ == "__main__":
    run_on_uvloop(main(sys.argv[1], Path(sys.argv[2])))
