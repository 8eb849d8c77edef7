"""The manager of the bench, a process of its own: cloud controllers over stubbed runs.

`python -m benchmarks.cloud.manager KUBECONFIG REPORT LIMIT`: writes what the stub saw to REPORT, as
JSON, when it is told to stop.
"""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson

from benchmarks.cloud.stub import StubRuns
from ctrlruntime.client.config import Config
from ctrlruntime.manager import Manager, ManagerOptions
from ctrlruntime.manager import run as run_on_uvloop
from internal.cloud.subresource import Subresource
from internal.cloud.subresources import SUBRESOURCES
from internal.cloud.tasks.definition import Concurrency
from manager.controllers.cloud import CloudOptions, add_cloud


def limited(limit: int) -> list[Subresource[Any]]:
    """The subresources, each type with this limit and no other."""
    concurrency = Concurrency(limit=limit)
    return [
        replace(item, definition=replace(item.definition, concurrency=concurrency))
        for item in SUBRESOURCES
    ]


async def main(kubeconfig: str, report: Path, limit: int) -> None:
    """Run until told to stop."""
    stub = StubRuns()
    options = ManagerOptions(metrics_bind_address="0", health_bind_address="0", handle_signals=True)
    manager = Manager(await Config.load(kubeconfig), options)
    add_cloud(
        manager,
        CloudOptions(instance_concurrency=50, subresource_concurrency=50),
        limited(limit),
        provider=stub,
    )
    try:
        await manager.start()
    finally:
        seen = {
            "most_live": dict(stub.most_live),
            "duplicates": stub.duplicates,
            "runs": len(stub.began),
            "began": [
                [stub.tasks[run_id], at] for run_id, at in sorted(stub.began.items(), key=_at)
            ],
        }
        await asyncio.to_thread(report.write_bytes, orjson.dumps(seen))


def _at(item: tuple[str, float]) -> float:
    return item[1]


if __name__ == "__main__":
    run_on_uvloop(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
