"""A node's RPC server: it says what a test wants it to say."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from internal.cosmos.comet.address import Address


@dataclass(slots=True)
class Rpc:
    """One node."""

    height: int = 0
    catching_up: bool = False
    broken: bool = False
    asked: int = 0
    address: Address = field(default_factory=lambda: Address("127.0.0.1", 0, 0))

    async def status(self, _request: web.Request) -> web.Response:
        self.asked += 1
        if self.broken:
            return web.Response(status=500, text="panic")
        info = {"latest_block_height": str(self.height), "catching_up": self.catching_up}
        return web.json_response({"jsonrpc": "2.0", "result": {"sync_info": info}})


@asynccontextmanager
async def rpc_server() -> AsyncIterator[Rpc]:
    """A node that answers."""
    node, app = Rpc(), web.Application()
    app.router.add_get("/status", node.status)
    runner = web.AppRunner(app)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    node.address = Address("127.0.0.1", listener.getsockname()[1], 0)
    await web.SockSite(runner, listener).start()
    try:
        yield node
    finally:
        await runner.cleanup()


def nobody() -> Address:
    """Where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return Address("127.0.0.1", listener.getsockname()[1], 0)
