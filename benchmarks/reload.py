"""``make bench-reload OBJECTS=5000``: changed code of `ctrlruntime dev`, from the edit to its first reconcile.

The API server runs in this process, so processor time has its share in it. The last line is one JSON object; the exit
code says whether the figures keep their bounds: nothing is listed or watched anew, and the median of the edits is
active within a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from statistics import median

import click

from ctrlruntime.cli.dev_project import Project
from ctrlruntime.cli.dev_server import EmbeddedServer
from ctrlruntime.cli.dev_session import Display, Session
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.local_webhooks import LocalWebhooks
from ctrlruntime.manager import ManagerOptions

EDITS = 5
MOST_SECONDS = 1.0
CODE = """
from benchmarks.reload import passes
from ctrlruntime import *

def setup(manager):
    async def reconcile(request):
        passes.begun({version})
    Builder(manager).for_(GroupVersionKind("", "v1", "ConfigMap")).named("example").build(reconcile)
"""


class _Passes:
    """The reconciles of code under development, by its version."""

    def __init__(self) -> None:
        self._began: dict[int, list[float]] = defaultdict(list)
        self._more = asyncio.Event()

    def begun(self, version: int) -> None:
        """Note that code of a version reconciles."""
        self._began[version].append(time.perf_counter())
        self._more.set()

    async def until(self, version: int, count: int = 1) -> float:
        """Wait for so many of a version, and return when the first began."""
        async with asyncio.timeout(120):
            while len(self._began[version]) < count:
                self._more.clear()
                await self._more.wait()
        return self._began[version][0]


passes = _Passes()


@contextlib.asynccontextmanager
async def _developing(folder: Path, objects: int) -> AsyncIterator[Environment]:
    (folder / "example.py").write_text(CODE.format(version=0))
    async with Environment(proxy=True) as environment, LocalWebhooks(environment) as hooks:
        client = environment.client("envtest")
        for n in range(objects):
            metadata = {"name": f"object-{n}", "namespace": "default"}
            await client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        server = EmbeddedServer(environment.config("manager"), environment, hooks)
        session = Session(
            Project(folder, "example:setup"),
            server,
            Display(io.StringIO()),
            options=lambda: ManagerOptions(name="dev"),
        )
        running = asyncio.create_task(session.run())
        try:
            yield environment
        finally:
            running.cancel()
            await asyncio.wait([running])


async def _measure(folder: Path, objects: int) -> dict[str, float]:
    seconds, processor = [], []
    async with _developing(folder, objects) as environment:
        await passes.until(0, objects)
        log = environment.proxy.log
        mark = log.mark()
        for version in range(1, EDITS + 1):
            edited, used = time.perf_counter(), time.process_time()
            (folder / "example.py").write_text(CODE.format(version=version))
            seconds.append(await passes.until(version) - edited)
            processor.append(time.process_time() - used)
            await passes.until(version, objects)
        reads = [each.verb for each in log.entries(mark)]
    return {
        "objects": objects,
        "lists": reads.count("list"),
        "watches": reads.count("watch"),
        "active_seconds": round(median(seconds), 3),
        "most_active_seconds": round(max(seconds), 3),
        "processor_seconds": round(median(processor), 3),
    }


@click.command()
@click.option("--objects", default=5000, show_default=True, help="ConfigMaps in the cache.")
def main(objects: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        figures = asyncio.run(_measure(Path(folder), objects))
    print(json.dumps(figures))
    kept = not figures["lists"] and not figures["watches"]
    sys.exit(not (kept and figures["active_seconds"] <= MOST_SECONDS))


if __name__ == "__main__":
    from benchmarks.reload import main as run  # the module that the code under development imports

    run()
