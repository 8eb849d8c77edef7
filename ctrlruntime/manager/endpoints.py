"""What a manager serves over HTTP: metrics, health, and on request diagnostics."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web
from structlog.typing import FilteringBoundLogger

from ctrlruntime.client.client import Client
from ctrlruntime.manager import diagnostics
from ctrlruntime.manager.health import Checks
from ctrlruntime.manager.http import HTTPServer, listen
from ctrlruntime.manager.metrics import Metrics
from ctrlruntime.manager.options import ManagerOptions
from ctrlruntime.manager.serving import MetricsServer

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


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
        self._extra: list[web.AbstractRouteDef] = []
        self._servers: dict[str, HTTPServer] = {}
        try:
            listener = listen(options.metrics_bind_address, "the metrics endpoint")
            if listener is not None:
                self._servers["metrics"] = MetricsServer(
                    options.metrics, listener, metrics.certificates, connect, logger
                )
            self._bind("health", options.health_bind_address, web.Application())
            self._bind("diagnostics", options.diagnostics_bind_address, diagnostics.application())
        except Exception:
            self.close()
            raise

    def port(self, name: str) -> int | None:
        server = self._servers.get(name)
        return server.port if server is not None else None

    def add_metrics_handler(self, path: str, handler: Handler) -> None:
        """Serves ``path`` next to ``/metrics``, which it cannot replace."""
        if path.rstrip("/") == "/metrics":
            raise ValueError("/metrics cannot be replaced")
        self._extra.append(web.get(path, handler))

    def servers(self) -> Iterable[HTTPServer]:
        """The servers, ready to start: nothing can be added any more."""
        if "metrics" in self._servers:
            routes = self._servers["metrics"].app
            routes.add_routes([web.get("/metrics", self._serve_metrics), *self._extra])
        if "health" in self._servers:
            routes = self._servers["health"].app
            routes.add_routes([*self.health.routes(), *self.readiness.routes()])
        return self._servers.values()

    def close(self) -> None:
        """Gives the ports back."""
        for server in self._servers.values():
            server.close()

    def _bind(self, name: str, address: str, app: web.Application) -> None:
        listener = listen(address, f"the {name} endpoint")
        if listener is not None:
            self._servers[name] = HTTPServer(name, app, listener)

    async def _serve_metrics(self, _request: web.Request) -> web.Response:
        body, content_type = await self._metrics.scrape()
        return web.Response(body=body, headers={"Content-Type": content_type})
