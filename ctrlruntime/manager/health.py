"""``/healthz`` and ``/readyz``: named checks, one path for each."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Final

from structlog.typing import FilteringBoundLogger

from ctrlruntime.manager.http_message import ServerRequest, ServerResponse
from ctrlruntime.manager.http_routes import Routes

Check = Callable[[], bool | str | Awaitable[bool | None] | None]
"""Healthy unless it returns False or raises; a text is shown with ``?verbose``. The reason of an exception is logged, and sent for CheckFailed alone."""


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
                continue
            passed, text = await self._outcome(name, check)
            failed = failed or not passed
            if passed:
                lines.append(f"[+]{name} ok{': ' if text else ''}{text}")
            else:
                lines.append(f"[-]{name} failed: {text}")
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
        passed, text = await self._outcome(name, check)
        if passed:
            return ServerResponse.text("ok")
        return ServerResponse.text(f"internal server error: {text}", 500)

    async def _outcome(self, name: str, check: Check) -> tuple[bool, str]:
        """Run a check. Return whether it passes, and what to send: the reason, or what else it shows."""
        try:
            result = check()
            if inspect.isawaitable(result):
                result = await result
        except Exception as error:  # noqa: BLE001 - a check fails by raising, whatever it raises
            self._logger.warning("Check failed", path=self.path, check=name, error=str(error))
            return False, str(error) if isinstance(error, CheckFailed) else WITHHELD
        if result is False:
            self._logger.warning("Check failed", path=self.path, check=name)
            return False, WITHHELD
        return True, result if isinstance(result, str) else ""


def _ping() -> None:
    return None
