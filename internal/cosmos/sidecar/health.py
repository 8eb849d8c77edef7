"""The HTTP server beside a node: whether the node has caught up, and how full its disk is."""

import asyncio
import os
from collections.abc import Callable
from typing import Final

import orjson
from aiohttp import web

from internal.cosmos.comet.address import Address
from internal.cosmos.comet.client import NodeClient
from internal.cosmos.comet.failures import NodeError

HEALTH: Final = "/health"
DISK: Final = "/disk"
StatVFS = Callable[[str], os.statvfs_result]


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
