"""Webhooks of the tests' own, over TLS."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import orjson
from aiohttp import web

from ctrlruntime.envtest.server.certificates import Authority

Answer = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""From the path and the review's request to its response."""


class Hooks:
    """A server of reviews: admission and conversion speak alike."""

    def __init__(self, answer: Answer) -> None:
        self.authority: Final = Authority("hooks")
        self.url = ""
        self._answer = answer

    def client_config(self, path: str = "/") -> dict[str, str]:
        """How an API server reaches it."""
        bundle = base64.b64encode(self.authority.ca_data).decode()
        return {"url": self.url + path, "caBundle": bundle}

    async def handle(self, request: web.BaseRequest) -> web.Response:
        review = orjson.loads(await request.read())
        response = await self._answer(request.path, review["request"])
        body = {"apiVersion": review["apiVersion"], "kind": review["kind"]}
        return web.json_response(
            {**body, "response": {"uid": review["request"]["uid"], **response}}
        )


@asynccontextmanager
async def serve(answer: Answer) -> AsyncIterator[Hooks]:
    hooks = Hooks(answer)
    server = web.Server(hooks.handle)
    runner = web.ServerRunner(server)
    await runner.setup()
    context = hooks.authority.server_context(["127.0.0.1", "s.n.svc"])
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
    hooks.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield hooks
    finally:
        for connection in server.connections:  # the API server keeps its own open
            if connection.transport is not None:
                connection.transport.abort()
        await runner.cleanup()
