"""What a manager serves over HTTP: metrics, health, and on request diagnostics."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterable

from structlog.typing import FilteringBoundLogger

from ctrlruntime.client.client import Client
from ctrlruntime.manager.health import Check, Checks
from ctrlruntime.manager.http import HTTPServer, listen
from ctrlruntime.manager.http_message import HTTPHandler, ServerRequest, ServerResponse
from ctrlruntime.manager.http_routes import Routes
from ctrlruntime.manager.metrics import Metrics
from ctrlruntime.manager.options import ManagerOptions
from ctrlruntime.manager.serving import MetricsServer


class Endpoints:
    """Binds its ports when it is made. Raises AddressError, leaving none of them bound."""

    def __init__(
        self,
        options: ManagerOptions,
        metrics: Metrics,
        logger: FilteringBoundLogger,
        connect: Callable[[], Client],
    ) -> None:
        self.health = Checks(options.liveness_path, logger)
        self.readiness = Checks(options.readiness_path, logger)
        self._metrics = metrics
        self._logger = logger
        self._servers: dict[str, HTTPServer] = {}
        try:
            listener = listen(options.metrics_bind_address, "the metrics endpoint")
            if listener is not None:
                self._servers["metrics"] = MetricsServer(
                    options.metrics, listener, metrics.certificates, connect, logger
                )
            self._bind("health", options.health_bind_address, Routes())
            self._bind("diagnostics", options.diagnostics_bind_address, diagnostic_routes())
        except Exception:
            self.close()
            raise

    def port(self, name: str) -> int | None:
        server = self._servers.get(name)
        return server.port if server is not None else None

    def add_check(self, name: str, check: Check) -> None:
        """Add a check to liveness and readiness. Raises ValueError for a name already taken."""
        self.health.add(name, check)
        self.readiness.add(name, check)

    def add_metrics_handler(self, path: str, handler: HTTPHandler) -> None:
        """Serve ``path`` next to ``/metrics``, which it cannot replace. Raises ValueError."""
        if path.rstrip("/") == "/metrics":
            raise ValueError("/metrics cannot be replaced")
        if "metrics" in self._servers:
            self._servers["metrics"].routes.add(path, handler)

    def servers(self) -> Iterable[HTTPServer]:
        """Return the servers, ready to start: nothing can be added any more."""
        if "metrics" in self._servers:
            self._servers["metrics"].routes.add("/metrics", self._serve_metrics)
        if "health" in self._servers:
            routes = self._servers["health"].routes
            self.health.add_to(routes)
            self.readiness.add_to(routes)
        return self._servers.values()

    def close(self) -> None:
        """Pass the ports back."""
        for server in self._servers.values():
            server.close()

    def _bind(self, name: str, address: str, routes: Routes) -> None:
        listener = listen(address, f"the {name} endpoint")
        if listener is not None:
            self._servers[name] = HTTPServer(name, routes, listener, self._logger)

    async def _serve_metrics(self, _request: ServerRequest) -> ServerResponse:
        body, content_type = await self._metrics.scrape()
        return ServerResponse(body, content_type=content_type)


def diagnostic_routes() -> Routes:
    """``/debug/tasks`` lists the tasks of the loop, ``/debug/stacks`` where each of them waits."""
    routes = Routes()
    routes.add("/debug/tasks", _tasks)
    routes.add("/debug/stacks", _stacks)
    return routes


async def _tasks(_request: ServerRequest) -> ServerResponse:
    names = sorted(task.get_name() for task in asyncio.all_tasks())
    return ServerResponse.text("\n".join([f"{len(names)} tasks", *names, ""]))


async def _stacks(_request: ServerRequest) -> ServerResponse:
    out = io.StringIO()
    for task in sorted(asyncio.all_tasks(), key=lambda task: task.get_name()):
        out.write(f"== {task.get_name()}\n")
        task.print_stack(file=out)
    return ServerResponse.text(out.getvalue())
