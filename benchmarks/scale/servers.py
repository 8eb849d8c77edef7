"""API servers in one process, for `benchmarks.scale.dead_cluster`; reports their URLs when all serve."""

from __future__ import annotations

import asyncio
import contextlib

import click
import uvloop

from ctrlruntime.envtest.process import report_ready
from ctrlruntime.envtest.server import APIServer, ServerOptions


async def serve(count: int, ready: str) -> None:
    """Serve until the process ends."""
    async with contextlib.AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(APIServer(ServerOptions())) for _ in range(count)
        ]
        report_ready(ready, {"urls": [each.url for each in servers]})
        await asyncio.Event().wait()


@click.command()
@click.option("--count", default=1)
@click.option("--ready", required=True)
def main(count: int, ready: str) -> None:
    """Serve `count` API servers."""
    uvloop.run(serve(count, ready))


if __name__ == "__main__":
    main()
