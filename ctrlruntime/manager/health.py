"""``/healthz`` and ``/readyz``: named checks, one path for each."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Final

from structlog.typing import FilteringBoundLogger

from ctrlruntime.manager.http_message import ServerRequest, ServerResponse
from ctrlruntime.manager.http_routes import Routes

Check = Callable[[], bool | Awaitable[bool | None] | None]
"""Healthy if it returns None or True. The reason of an exception is logged, and sent for CheckFailed alone."""


class CheckFailed(Exception):
    """A failed check whose message may be sent to whoever reads the probe: it has no secrets."""


WITHHELD: Final = "reason withheld"


class Checks:
    """The checks behind one path. Without any, ``ping`` always passes."""

    def __init__(self, path: str, logger: FilteringBoundLogger) -> None:
        self.path = path
        self._logger = logger
        self._checks: dict[str, Check] = {}

    def add(self, name: str, check: Check) -> None:
        """Raise ValueError for a name already taken."""
        if name in self._checks:
            raise ValueError(f"there is a check {name!r} at {self.path} already")
        self._checks[name] = check

    def add_to(self, routes: Routes) -> None:
        """Answer at the path, and at one below it for each check."""
        routes.add(self.path, self._all)
        routes.add(f"{self.path}/", self._all)
        routes.add_subtree(f"{self.path}/", self._one)

    async def _all(self, request: ServerRequest) -> ServerResponse:
        excluded = set(request.query.get("exclude", ()))
        lines, failed = [], False
        for name, check in sorted((self._checks or {"ping": _ping}).items()):
            if name in excluded:
                excluded.discard(name)
                lines.append(f"[+]{name} excluded: ok")
            elif (reason := await self._failure(name, check)) is None:
                lines.append(f"[+]{name} ok")
            else:
                failed = True
                lines.append(f"[-]{name} failed: {reason}")
        if excluded:
            names = ", ".join(sorted(excluded))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        verdict = f"{self.path.strip('/')} check {'failed' if failed else 'passed'}"
        if failed:
            return ServerResponse.text("\n".join([*lines, verdict, ""]), 500)
        if "verbose" in request.query:
            return ServerResponse.text("\n".join([*lines, verdict, ""]))
        return ServerResponse.text("ok")

    async def _one(self, request: ServerRequest) -> ServerResponse:
        name = request.path.removeprefix(f"{self.path}/").removesuffix("/")
        check = (self._checks or {"ping": _ping}).get(name)
        if check is None:
            return ServerResponse.text(f"no check {name}", 404)
        reason = await self._failure(name, check)
        if reason is None:
            return ServerResponse.text("ok")
        return ServerResponse.text(f"internal server error: {reason}", 500)

    async def _failure(self, name: str, check: Check) -> str | None:
        """Run a check. Return None if it passes, else the reason to send."""
        try:
            result = check()
            if inspect.isawaitable(result):
                result = await result
        except Exception as error:  # noqa: BLE001 - a check fails by raising, whatever it raises
            self._logger.warning("Check failed", path=self.path, check=name, error=str(error))
            return str(error) if isinstance(error, CheckFailed) else WITHHELD
        if result is False:
            self._logger.warning("Check failed", path=self.path, check=name)
            return WITHHELD
        return None


def _ping() -> None:
    return None
