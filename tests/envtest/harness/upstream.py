"""A small API-server-like upstream for the proxy's tests: every answer is under the test's hand."""

from __future__ import annotations

import asyncio
from collections import Counter

import orjson
from aiohttp import web


class Upstream:
    """Counts what arrives, answers from `version`, streams what `send` is given on watches."""

    def __init__(self) -> None:
        self.arrived: Counter[str] = Counter()
        self.bodies: list[bytes] = []
        self.version = 1
        self.watchers: list[asyncio.Queue[bytes | None]] = []
        self.watching = asyncio.Event()
        self.entered = asyncio.Event()
        self.gate = asyncio.Event()
        self.gate.set()
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> Upstream:
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(self, *_: object) -> None:
        for queue in self.watchers:
            queue.put_nowait(None)
        assert self._runner is not None
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        assert self._runner is not None
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    def send(self, type_: str, name: str, **extra: object) -> None:
        event = {"type": type_, "object": {"metadata": {"name": name, "namespace": "ns"} | extra}}
        self.send_raw(orjson.dumps(event) + b"\n")

    def send_raw(self, data: bytes | None) -> None:
        for queue in self.watchers:
            queue.put_nowait(data)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("watch") == "true":
            return await self._watch(request)
        self.bodies.append(await request.read())
        self.arrived[f"{request.method} {request.path}"] += 1
        self.entered.set()
        await self.gate.wait()
        if request.path.endswith("/missing"):
            return web.json_response({"kind": "Status", "code": 404}, status=404)
        if request.query.get("size"):
            return web.Response(body=b"x" * int(request.query["size"]))
        return web.json_response({"version": self.version}, status=200)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.content_type = "application/json"
        response.enable_chunked_encoding()
        await response.prepare(request)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.watchers.append(queue)
        self.watching.set()
        while (data := await queue.get()) is not None:
            await response.write(data)
        return response
