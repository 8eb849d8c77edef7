"""``/healthz`` and ``/readyz``: named checks, one path for each."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from aiohttp import web
from structlog.typing import FilteringBoundLogger

Check = Callable[[], bool | Awaitable[bool | None] | None]
"""Healthy if it returns None or True. The reason of an exception is logged, never sent."""


class Checks:
    """The checks behind one path. Without any, ``ping`` always passes."""

    def __init__(self, path: str, logger: FilteringBoundLogger) -> None:
        self.path = path
        self._logger = logger
        self._checks: dict[str, Check] = {}

    def add(self, name: str, check: Check) -> None:
        """Raises ValueError for a name already taken."""
        if name in self._checks:
            raise ValueError(f"there is a check {name!r} at {self.path} already")
        self._checks[name] = check

    def routes(self) -> list[web.AbstractRouteDef]:
        return [
            web.get(self.path, self._all),
            web.get(f"{self.path}/", self._all),
            web.get(self.path + r"/{name}", self._one),
            web.get(self.path + r"/{name}/", self._one),
        ]

    async def _all(self, request: web.Request) -> web.Response:
        excluded = set(request.query.getall("exclude", []))
        lines, failed = [], False
        for name, check in sorted((self._checks or {"ping": _ping}).items()):
            if name in excluded:
                excluded.discard(name)
                lines.append(f"[+]{name} excluded: ok")
            elif await self._passes(name, check):
                lines.append(f"[+]{name} ok")
            else:
                failed = True
                lines.append(f"[-]{name} failed: reason withheld")
        if excluded:
            names = ", ".join(sorted(excluded))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        verdict = f"{self.path.strip('/')} check {'failed' if failed else 'passed'}"
        if failed:
            return web.Response(status=500, text="\n".join([*lines, verdict, ""]))
        if "verbose" in request.query:
            return web.Response(text="\n".join([*lines, verdict, ""]))
        return web.Response(text="ok")

    async def _one(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        check = (self._checks or {"ping": _ping}).get(name)
        if check is None:
            return web.Response(status=404, text=f"no check {name}")
        if await self._passes(name, check):
            return web.Response(text="ok")
        return web.Response(status=500, text="internal server error: reason withheld")

    async def _passes(self, name: str, check: Check) -> bool:
        try:
            result = check()
            if inspect.isawaitable(result):
                result = await result
        except Exception as error:  # noqa: BLE001 - a check fails by raising, whatever it raises
            self._logger.warning("Check failed", path=self.path, check=name, error=str(error))
            return False
        if result is False:
            self._logger.warning("Check failed", path=self.path, check=name)
            return False
        return True


def _ping() -> None:
    return None
