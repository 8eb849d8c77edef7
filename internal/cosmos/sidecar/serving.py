"""Runs what stands beside a node, until the process receives a signal to end."""

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

import orjson
from aiohttp import web

from ctrlruntime.client import Client, Config
from ctrlruntime.outbound_addresses import LOOPBACK
from internal.cosmos.comet.address import Address
from internal.cosmos.comet.client import NodeClient
from internal.cosmos.comet.failures import NodeError
from internal.cosmos.sidecar.version_check import Place, VersionCheck

HEALTH: Final = "/health"
DISK: Final = "/disk"
StatVFS = Callable[[str], os.statvfs_result]


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


def make_app(nodes: NodeClient, address: Address, statvfs: StatVFS = os.statvfs) -> web.Application:
    """`GET /health` and `GET /disk?dir=`. All answers are JSON, those that say no have an `error`."""

    async def health(_request: web.Request) -> web.Response:
        """200 only if the node answers and has caught up."""
        try:
            status = await nodes.status(address)
        except NodeError as error:
            return _answer(503, error=str(error))
        if status.catching_up:
            return _answer(503, error="The node has not caught up.", height=status.height)
        return _answer(200, height=status.height)

    async def disk(request: web.Request) -> web.Response:
        folder = request.query.get("dir", "")
        if not folder.startswith("/") or "\0" in folder:
            return _answer(400, dir=folder, error="say which folder: ?dir=/absolute/path")
        try:
            found = await asyncio.to_thread(statvfs, folder)
        except (FileNotFoundError, NotADirectoryError):
            return _answer(404, dir=folder, error="there is no such folder")
        except OSError as error:
            return _answer(500, dir=folder, error=error.strerror or str(error))
        return _answer(
            200,
            dir=folder,
            all_bytes=found.f_frsize * found.f_blocks,
            free_bytes=found.f_frsize * found.f_bavail,
        )

    app = web.Application()
    app.router.add_get(HEALTH, health)
    app.router.add_get(DISK, disk)
    return app


def _answer(code: int, **fields: str | int) -> web.Response:
    return web.Response(status=code, body=orjson.dumps(fields), content_type="application/json")
