"""A web site for tests: answers as it is told, and keeps what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web


@dataclass(slots=True)
class Asked:
    """A request that arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    raw_path: str = ""
    """With the query, letter by letter."""


@dataclass(slots=True)
class Say:
    """An answer."""

    status: int = 200
    json: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str | None = None
    hang_up: bool = False
    """Close the connection instead."""
    silent: bool = False
    """Never answer."""


Answers = Say | Callable[[Asked], Say] | list[Say]


class Site:
    """Listens on loopback. `answers` maps `METHOD /path` to an answer, or several: the last stays."""

    def __init__(self) -> None:
        self.answers: dict[str, Answers] = {}
        self.asked: list[Asked] = []
        self.url = ""
        self.port = 0
        self._runner: web.AppRunner | None = None
        self._over = asyncio.Event()

    async def __aenter__(self) -> Site:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self.port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._over.set()
        assert self._runner is not None
        await self._runner.cleanup()

    def paths(self) -> list[str]:
        """What was asked, in order."""
        return [f"{each.method} {each.path}" for each in self.asked]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        asked = Asked(
            method=request.method,
            path=request.path,
            headers=dict(request.headers),
            body=orjson.loads(raw) if raw else None,
            raw_path=request.raw_path,
        )
        self.asked.append(asked)
        say = self._choose(asked)
        if say.silent:
            await self._over.wait()
        if say.hang_up or say.silent:
            assert request.transport is not None
            request.transport.abort()
        text = say.text if say.text is not None else orjson.dumps(say.json).decode()
        return web.Response(status=say.status, text=text, headers=say.headers)

    def _choose(self, asked: Asked) -> Say:
        answers = self.answers.get(f"{asked.method} {asked.path}", Say(status=404))
        if isinstance(answers, list):
            return answers.pop(0) if len(answers) > 1 else answers[0]
        return answers(asked) if callable(answers) else answers
