"""A scripted HTTP server: answers each request as told, and remembers what it was asked."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Peer:
    """Answers requests in the order of its script; the last answer serves for all that follow."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[web.Request] = []
        self.bodies: list[bytes] = []
        self.url = ""
        self._runner: web.AppRunner | None = None
        self.released = asyncio.Event()
        """Set at the end, for answers that hang until then."""

    async def __aenter__(self) -> "Peer":
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.released.set()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return await answer(request)

    async def hang(self, _request: web.Request) -> web.StreamResponse:
        """Read the request and answer nothing."""
        await self.released.wait()
        return web.Response()


def says(
    body: object = None, *, status: int = 200, headers: dict[str, str] | None = None
) -> Answer:
    async def answer(_request: web.Request) -> web.StreamResponse:
        if isinstance(body, bytes):
            return web.Response(body=body, status=status, headers=headers)
        return web.json_response(body or {}, status=status, headers=headers)

    return answer


def fails(code: int, reason: str, *, retry_after: int | None = None, **details: object) -> Answer:
    body = {"kind": "Status", "code": code, "reason": reason, "message": "no", "details": details}
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return says(body, status=code, headers=headers)


def hangs_up(after: bytes = b"") -> Answer:
    """Break the connection, perhaps in the middle of an answer."""

    async def answer(request: web.Request) -> web.StreamResponse:
        if after:
            response = web.StreamResponse()
            response.enable_chunked_encoding()
            await response.prepare(request)
            await response.write(after)
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return answer


def streams(*chunks: bytes, then: Callable[[], Awaitable[Any]] | None = None) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if then is not None:
            await then()
        return response

    return answer
