"""What a TLS client sees of a server, and whether it trusts it."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from datetime import datetime, timedelta

from cryptography import x509


class Clock:
    """A clock that is set."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, days: float) -> None:
        self.now += timedelta(days=days)


def unchecked() -> ssl.SSLContext:
    """Trust every server, and so read no authorities."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


async def handshake(
    port: int,
    bundle: bytes | None = None,
    *,
    name: str = "127.0.0.1",
    client: str | None = None,
) -> x509.Certificate:
    """The certificate that a client gets who trusts ``bundle``; ssl.SSLError if it does not trust it."""
    context = ssl.create_default_context(cadata=bundle.decode()) if bundle else unchecked()
    if client is not None:
        context.load_cert_chain(client)
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name)
    try:
        served = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return x509.load_der_x509_certificate(served)
    finally:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def accepts(bundle: bytes, chain: bytes, key: bytes, name: str, folder: str) -> bool:
    """Whether a client that trusts ``bundle`` takes a server with ``chain``; all in memory."""
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    path = f"{folder}/pair.pem"
    with open(path, "wb") as file:  # noqa: PTH123 - a test's own file
        file.write(chain + key)
    server_context.load_cert_chain(path)
    client_context = ssl.create_default_context(cadata=bundle.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_context.wrap_bio(to_server, to_client, server_side=True)
    client = client_context.wrap_bio(to_client, to_server, server_hostname=name)
    done = 0
    while done < 2:
        done = 0
        for side in (client, server):
            try:
                side.do_handshake()
                done += 1
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLCertVerificationError:
                return False
    return True
