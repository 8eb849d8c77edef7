"""A fence: a word on every write, in the very turn of the loop in which its bytes leave.

A request may wait: for a free slot, a connection, a retry, its turn on a busy loop, or because the
process was stopped. Whoever must not write any more has to be asked after all of that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ctrlruntime.client.sending import Request

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.client_reqrep import ClientResponse
    from aiohttp.connector import Connection

Fence = Callable[[], None]
"""Raises to keep a write from being sent; the caller gets the error. Called often, so quick."""

READS = frozenset({"GET", "HEAD"})


def fenced(fence: Fence) -> type[Request]:
    """A request class for one session: asks the fence, then hands the bytes to the socket at once."""

    class FencedRequest(Request):
        """Without a body a request is sent by `send`, with one by `write_bytes`, often turns later."""

        async def send(self, conn: Connection) -> ClientResponse:
            if self.method not in READS:
                fence()
            return await super().send(conn)

        async def write_bytes(
            self, writer: AbstractStreamWriter, conn: Connection, content_length: int | None = None
        ) -> None:
            if self.method not in READS:
                try:
                    fence()
                except Exception as error:  # noqa: BLE001 - it is raised where the answer is awaited
                    if conn.protocol is not None:
                        conn.protocol.set_exception(error)
                    return
            await super().write_bytes(writer, conn, content_length)

    return FencedRequest
