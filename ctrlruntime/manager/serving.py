"""How the metrics are served: plain, or over https, to everybody or to whom the API server allows."""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from structlog.typing import FilteringBoundLogger

from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.clock import utc_now
from ctrlruntime.manager.authorization import RequestFilter
from ctrlruntime.manager.http import HTTPServer
from ctrlruntime.manager.http_routes import Routes
from ctrlruntime.webhook.metrics import CertificateMetrics

if TYPE_CHECKING:
    from ctrlruntime.webhook.mounted import CertWatcher
    from ctrlruntime.webhook.tls import ServingTLS

SELF_SIGNED = timedelta(days=365)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsServing:
    """Options of the metrics endpoint."""

    secure: bool = False
    """Serve https."""
    certificate_folder: Path | None = None
    """Where the certificate lies, followed when it is replaced; without one it is self-signed
    and for ``localhost``, so that readers have to skip the check."""
    certificate_name: str = "tls.crt"
    key_name: str = "tls.key"
    authorize: bool = False
    """Answer only to tokens that the API server accepts, of users who may ``get`` the path
    (TokenReview and SubjectAccessReview)."""
    reviewer: Config | None = None
    """The API server that is asked; by default that of the manager's own cluster."""

    def __post_init__(self) -> None:
        if self.authorize and not self.secure:
            raise ValueError("metrics with authorize need secure: tokens must not travel in clear")
        if self.certificate_folder is not None and not self.secure:
            raise ValueError("a certificate for the metrics needs secure")


def serving_tls(
    folder: Path | None,
    names: tuple[str, str],
    certificates: CertificateMetrics,
    logger: FilteringBoundLogger,
) -> tuple[ServingTLS, CertWatcher | None]:
    """Return TLS by the certificate in a folder, and what follows it when it is replaced; without a folder, self-signed.

    ``names``: of the files of certificate and key.
    """
    from ctrlruntime.webhook.mounted import CertWatcher
    from ctrlruntime.webhook.tls import ServingTLS

    tls = ServingTLS()
    if folder is not None:
        return tls, CertWatcher(folder, tls, certificates, logger, *names)
    from ctrlruntime.pki import pem, self_signed

    pair = self_signed(["localhost", "127.0.0.1"], utc_now(), SELF_SIGNED)
    tls.load(pem(pair.certificate), pair.key_pem)
    return tls, None


@asynccontextmanager
async def followed(mounted: CertWatcher | None) -> AsyncIterator[None]:
    """Follow a certificate on disk for the length of a block. Raises CertificateError if there is none at the start."""
    if mounted is None:
        yield
        return
    await mounted.prepare()
    following = asyncio.create_task(mounted.run(), name="serving certificate")
    try:
        yield
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


class MetricsServer(HTTPServer):
    """The metrics endpoint as the options want it."""

    def __init__(
        self,
        options: MetricsServing,
        listener: socket.socket,
        certificates: CertificateMetrics,
        connect: Callable[[], Client],
        logger: FilteringBoundLogger,
    ) -> None:
        reviewer = options.reviewer
        if reviewer is not None:
            connect = functools.partial(Client.connect, reviewer, logger=logger)
        self._filter = RequestFilter(connect, logger) if options.authorize else None
        self._mounted: CertWatcher | None = None
        routes = Routes(self._filter.refusal if self._filter is not None else None)
        if not options.secure:
            super().__init__("metrics", routes, listener, logger)
            return
        tls, self._mounted = serving_tls(
            options.certificate_folder,
            (options.certificate_name, options.key_name),
            certificates,
            logger,
        )
        super().__init__(
            "metrics", routes, listener, logger, tls=tls.context, may_persist=tls.is_current
        )

    async def start(self) -> None:
        """Serve until cancelled. Raises CertificateError if there is no certificate to serve."""
        try:
            async with followed(self._mounted):
                await super().start()
        finally:
            if self._filter is not None:
                await self._filter.close()
