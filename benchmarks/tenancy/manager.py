"""The tenancy system as `manager run` has it, with a watch over its event loop once its caches are read.

`python -m benchmarks.tenancy.manager KUBECONFIG METRICS REPORT`: serves metrics at the address METRICS. Writes the
longest stalls of its loop to REPORT, as JSON, when it ends.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import orjson

from benchmarks.stalls import watching
from ctrlruntime.client.config import Config
from ctrlruntime.manager import Manager
from ctrlruntime.manager import run as run_on_uvloop
from ctrlruntime.manager.logs import configure
from manager.controllers.tenancy import add_tenancy
from manager.options import RunOptions

KEPT_SECONDS = 0.02
KEPT = 5
"""How many of the stalls longer than that are reported, with what ran then."""


async def main(kubeconfig: Path, metrics: str, report: Path) -> None:
    """Run until SIGTERM."""
    options = RunOptions(
        systems=("tenancy",), metrics_bind_address=metrics, health_probe_bind_address="0"
    )
    logger = configure(format=options.log_format, level=options.log_level)
    manager = Manager(await Config.load(kubeconfig), options.manager_options(), logger=logger)
    add_tenancy(manager, options.tenancy)
    async with manager.running(leading=False):
        with watching(allowed=KEPT_SECONDS) as stalls:
            await manager.stopped.wait()
    longest = sorted(stalls.longest, reverse=True)[:KEPT]
    found = {
        "max_stall_ms": round(stalls.most * 1000, 1),
        "longest": [f"{seconds * 1000:.0f} ms: {where}" for seconds, where in longest],
    }
    await asyncio.to_thread(report.write_bytes, orjson.dumps(found))


if __name__ == "__main__":
    run_on_uvloop(main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])))
