"""Which handler answers at which path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ctrlruntime.manager.http_message import HTTPHandler, ServerRequest, ServerResponse

__all__ = ["HTTPFilter", "Routes"]

HTTPFilter = Callable[[ServerRequest], Awaitable[ServerResponse | None]]
"""Called before every handler, unknown paths included; an answer of its own keeps the handler from being called."""


class Routes:
    """Handlers of ``GET``, and so of ``HEAD``, by path."""

    def __init__(self, request_filter: HTTPFilter | None = None) -> None:
        self._filter = request_filter
        self._paths: dict[str, HTTPHandler] = {}
        self._subtrees: dict[str, HTTPHandler] = {}

    def add(self, path: str, handler: HTTPHandler) -> None:
        """Answer at exactly this path. Raises ValueError for one that is taken, or is none."""
        self._add(self._paths, path, handler)

    def add_subtree(self, prefix: str, handler: HTTPHandler) -> None:
        """Answer at all paths that begin with ``prefix``, which ends with a slash, and have no handler of their own."""
        self._add(self._subtrees, prefix, handler)

    async def answer(self, request: ServerRequest) -> ServerResponse:
        """Return the handler's answer, or 404 or 405. Raises what the handler raises."""
        if self._filter is not None and (refused := await self._filter(request)) is not None:
            return refused
        handler = self._handler(request.path)
        if handler is None:
            return ServerResponse.of_status(404)
        if request.method not in ("GET", "HEAD"):
            return ServerResponse.of_status(405, Allow="GET,HEAD")
        return await handler(request)

    def _handler(self, path: str) -> HTTPHandler | None:
        found = self._paths.get(path)
        if found is not None:
            return found
        matching = [prefix for prefix in self._subtrees if path.startswith(prefix)]
        return self._subtrees[max(matching, key=len)] if matching else None

    @staticmethod
    def _add(table: dict[str, HTTPHandler], path: str, handler: HTTPHandler) -> None:
        if not path.startswith("/") or "?" in path or path in table:
            raise ValueError(f"the path {path!r} is taken, or does not begin with / or has a query")
        table[path] = handler
