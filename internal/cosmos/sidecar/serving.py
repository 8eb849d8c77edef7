"""Runs what stands beside a node, until the process receives a signal to end."""

import asyncio
import signal
import socket
from pathlib import Path

from aiohttp import web

from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.outbound_addresses import LOOPBACK
from internal.cosmos.comet.address import Address
from internal.cosmos.comet.client import NodeClient
from internal.cosmos.sidecar.health import make_app
from internal.cosmos.sidecar.version_check import Place, VersionCheck


async def serve_health(listener: socket.socket, address: Address, *, deadline: float) -> None:
    """Serve health and disk usage. `deadline`: seconds that the node has to answer."""
    nodes = NodeClient(deadline=deadline, allowed=LOOPBACK)
    runner = web.AppRunner(make_app(nodes, address), access_log=None)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        await wait_for_stop_signal()
    finally:
        await runner.cleanup()
        await nodes.close()


async def check_before_start(place: Place, kubeconfig: Path | None) -> str:
    """Return the result of :meth:`VersionCheck.before_start`."""
    async with Client.connect(await Config.load(kubeconfig)) as client:
        return await VersionCheck(client, place).before_start()


async def keep_checking(
    place: Place, address: Address, kubeconfig: Path | None, *, seconds: float, deadline: float
) -> None:
    """Tell the set the node's next height every so many seconds."""
    nodes = NodeClient(deadline=deadline, allowed=LOOPBACK)
    try:
        async with Client.connect(await Config.load(kubeconfig)) as client:
            check = VersionCheck(client, place)
            looking = asyncio.create_task(check.keep_looking(nodes, address, seconds=seconds))
            try:
                await wait_for_stop_signal()
            finally:
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)
    finally:
        await nodes.close()


async def wait_for_stop_signal() -> None:
    """Wait for SIGTERM or SIGINT."""
    told, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    await told.wait()
