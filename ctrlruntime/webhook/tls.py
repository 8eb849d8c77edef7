"""Serving TLS with a certificate that changes while connections come and go."""

from __future__ import annotations

import asyncio
import os
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web
    from aiohttp.typedefs import Middleware

__all__ = ["CertificateError", "ServingTLS"]


class CertificateError(ValueError):
    """A certificate and key that cannot be served."""


class ServingTLS:
    """A context for a server; :meth:`load` replaces what new connections get.

    With ``client_ca`` (PEM) only clients whose certificate it signed are let in. Connections that
    stand keep what they were made with; the :attr:`renewal` ends them after their next answer.
    """

    def __init__(self, client_ca: bytes | None = None) -> None:
        self._client_ca = client_ca
        self._current: ssl.SSLContext | None = None
        self._pair = (b"", b"")
        self.context = self._context()
        self.context.sni_callback = self._choose

    @property
    def certificate(self) -> bytes:
        """The chain that is served (PEM); empty before the first."""
        return self._pair[0]

    @property
    def loaded(self) -> bool:
        """Whether there is a certificate to serve."""
        return self._current is not None

    def is_current(self, transport: asyncio.BaseTransport | None) -> bool:
        """Whether a connection was made with what is served now."""
        connection = transport.get_extra_info("ssl_object") if transport is not None else None
        return connection is None or connection.context is self._current

    @property
    def renewal(self) -> Middleware:
        """A middleware: a connection made before a change ends with its next answer, so that the certificate before is soon nowhere in use.

        The client is notified (``Connection: close``).
        """
        from aiohttp import web

        @web.middleware
        async def renew(
            request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
        ) -> web.StreamResponse:
            response = await handler(request)
            if not self.is_current(request.transport):
                response.force_close()
            return response

        return renew

    def load(self, certificate: bytes, key: bytes) -> bool:
        """Serve this pair (PEM) from now on; whether that is a change.

        Raises CertificateError, and goes on with the pair before, if they do not fit.
        """
        if self._current is not None and (certificate, key) == self._pair:
            return False
        context = self._context()
        try:
            with _as_file(certificate + b"\n" + key) as path:
                context.load_cert_chain(path)
        except (ssl.SSLError, OSError) as error:
            raise CertificateError(
                f"certificate and key cannot be served: {getattr(error, 'reason', None) or error}"
            ) from None
        self._current, self._pair = context, (certificate, key)
        return True

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        if self._client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=self._client_ca.decode())
        return context

    def _choose(
        self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext
    ) -> int | None:
        """Choose the certificate; called for every connection, with or without a server name."""
        if self._current is None:
            return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR
        connection.context = self._current
        return None


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """OpenSSL reads files only. Where the system has files in memory, the key stays off the disk."""
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
        return
    with tempfile.NamedTemporaryFile(prefix="ctrlruntime-", suffix=".pem") as file:
        file.write(data)
        file.flush()
        yield file.name
