"""A server that plays Prometheus and a hook, for health checks of rollouts."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from ctrlruntime.json import Json
from tests.support.ports import held

FOUND = {"metric": {"job": "shop"}, "value": [1.0, "0.07"]}


def vector(*samples: dict[str, Any]) -> dict[str, Any]:
    """What Prometheus answers to an instant query."""
    return {"status": "success", "data": {"resultType": "vector", "result": list(samples)}}


@dataclass
class Checks:
    """Plays Prometheus below /prometheus, and a hook at /hook."""

    answer: Callable[[], web.Response]
    port: int = 0
    queries: list[str] = field(default_factory=list)
    posted: list[Any] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    _runner: web.AppRunner | None = None
    _held: socket.socket | None = None

    @property
    def requests(self) -> int:
        return len(self.queries) + len(self.posted)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Checks]:
        await self.open()
        try:
            yield self
        finally:
            await self.close()
            self._release()

    async def open(self) -> None:
        """Listen, after a close on the same port."""
        application = web.Application()
        application.router.add_get("/prometheus/api/v1/query", self._query)
        application.router.add_post("/hook", self._hook)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self._release()

    async def close(self) -> None:
        """Refuse connections from now on."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
            self._held = held(self.port)

    def _release(self) -> None:
        if self._held is not None:
            self._held.close()
            self._held = None

    async def _query(self, request: web.Request) -> web.Response:
        self.queries.append(request.query["query"])
        self.tokens.add(request.headers.get("Authorization", ""))
        return self.answer()

    async def _hook(self, request: web.Request) -> web.Response:
        self.posted.append(await request.json())
        return self.answer()

    def prometheus(self, **more: Json) -> dict[str, Any]:
        query = {"url": f"{self.url}/prometheus", "query": "errors > 0.02"}
        return {"name": "errors", "prometheus": query, "periodSeconds": 1, **more}

    def hook(self) -> dict[str, Any]:
        return {"name": "orders", "hook": {"url": f"{self.url}/hook"}, "periodSeconds": 1}
