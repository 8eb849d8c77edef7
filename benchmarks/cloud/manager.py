"""The manager of the bench, a process of its own: cloud controllers over stubbed runs.

`python -m benchmarks.cloud.manager KUBECONFIG REPORT LIMIT`: the options of `manager run` but for the
limit, which is every type's, and the ports, of which it opens none. Writes what the stub saw to
REPORT, as JSON, when it is told to stop.
"""

import asyncio
import sys
from pathlib import Path

import orjson

from benchmarks.cloud.stub import StubRuns
from ctrlruntime.client.config import Config
from ctrlruntime.manager import Manager
from ctrlruntime.manager import run as run_on_uvloop
from ctrlruntime.manager.logs import configure
from internal.cloud.subresources import SUBRESOURCES
from manager.controllers.cloud import add_cloud
from manager.controllers.cloud_options import CloudOptions
from manager.options import RunOptions


def options(limit: int) -> RunOptions:
    """What `manager run` would be told."""
    tasks = [item.definition.name for item in SUBRESOURCES]
    return RunOptions(
        systems=("cloud",),
        metrics_bind_address="0",
        health_probe_bind_address="0",
        cloud=CloudOptions(
            limits=dict.fromkeys(tasks, limit), starts_per_minute=dict.fromkeys(tasks, 0)
        ),
    )


def dropped_events(manager: Manager) -> int:
    """Events that were recorded and never sent."""
    return int(
        sum(
            sample.value
            for family in manager.metrics.events_dropped.collect()
            for sample in family.samples
            if sample.name.endswith("_total")
        )
    )


async def main(kubeconfig: str, report: Path, limit: int) -> None:
    """Run until told to stop."""
    given, stub = options(limit), StubRuns()
    logger = configure(format=given.log_format, level=given.log_level)
    manager = Manager(await Config.load(kubeconfig), given.manager_options(), logger=logger)
    add_cloud(manager, given.cloud, provider=stub)
    try:
        await manager.start()
    finally:
        seen = {
            "most_live": dict(stub.most_live),
            "duplicates": stub.duplicates,
            "runs": len(stub.began),
            "owners": len(stub.by_owner),
            "events_dropped": dropped_events(manager),
        }
        await asyncio.to_thread(report.write_bytes, orjson.dumps(seen))


if __name__ == "__main__":
    run_on_uvloop(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
