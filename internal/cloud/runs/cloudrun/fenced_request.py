"""Requests of an aiohttp session that ask a fence as they leave."""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp

from ctrlruntime.client.fence import READS, Fence

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.client_reqrep import ClientResponse
    from aiohttp.connector import Connection


def fenced(fence: Fence) -> type[aiohttp.ClientRequest]:
    """A request class for one session: asks the fence, then hands the bytes to the socket at once."""

    class FencedRequest(aiohttp.ClientRequest):
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
