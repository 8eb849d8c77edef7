"""Requests to nodes: one session for all of them, a deadline for each request."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from yarl import URL

from ctrlruntime.outbound_addresses import Network
from internal.cosmos.comet.address import Address
from internal.cosmos.comet.failures import Failure, NodeError
from internal.cosmos.comet.status import NodeStatus, parse_status
from internal.cosmos.comet.usage import DiskUsage, parse_usage

if TYPE_CHECKING:
    import aiohttp

LIMIT: Final = 256 * 1024
"""Bytes of an answer; a status has about 2 KB."""
KEEP_ALIVE: Final = 60.0
"""Seconds that a connection is kept for the next question."""


class NodeClient:
    """Reads the status of nodes and the usage of their disks. Close it after the last request.

    How many are asked at once is the caller's to limit. Redirects are not followed: a node is not to
    send its manager anywhere.
    """

    def __init__(self, *, deadline: float, allowed: Sequence[Network] = ()) -> None:
        """`deadline`: seconds for a question, from the connection to the last byte. `allowed`: networks that are not refused."""
        self._allowed = allowed
        self._deadline = deadline
        self._session: aiohttp.ClientSession | None = None

    async def status(self, address: Address) -> NodeStatus:
        """How far the node is. Raises NodeError."""
        return parse_status(await self._get(address.status))

    async def usage(self, address: Address, folder: str) -> DiskUsage:
        """How full the disk is that `folder` is on. Raises NodeError."""
        body = await self._get(address.usage, {"dir": folder}, errors=True)
        return parse_usage(body)

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def _get(
        self, url: URL, params: dict[str, str] | None = None, *, errors: bool = False
    ) -> bytes:
        """Return the body; with `errors` also that of an answer with code 500, which describes what is wrong."""
        import aiohttp  # a fifth of a manager's import time, and only node sets need it

        try:
            async with (
                asyncio.timeout(self._deadline),
                self._open().get(url, params=params, allow_redirects=False) as response,
            ):
                if response.status != 200 and not (errors and response.status == 500):
                    raise NodeError(Failure.REFUSED, f"The node answered {response.status}.")
                return await _read(response)
        except TimeoutError:
            why = f"The node did not answer within {self._deadline:g} s."
            raise NodeError(Failure.DEADLINE, why) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # ValueError: what a server sends may break the parser of headers in ways of its own.
            why = f"The node cannot be reached: {_word(error)}"
            raise NodeError(Failure.UNREACHABLE, why) from None

    def _open(self) -> aiohttp.ClientSession:
        from ctrlruntime.outbound_http import outbound_session

        if self._session is None or self._session.closed:
            self._session = outbound_session(
                self._allowed, limit=0, keep_alive=KEEP_ALIVE, plain=True
            )
        return self._session


async def _read(response: aiohttp.ClientResponse) -> bytes:
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > LIMIT:
            raise NodeError(Failure.INVALID, f"The node's answer has more than {LIMIT} bytes.")
        chunks.append(chunk)
    return b"".join(chunks)


def _word(error: Exception) -> str:
    """Without addresses, which change with every Pod: a status would be written for them."""
    import aiohttp

    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the connection was closed"
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    number = getattr(cause, "errno", None)
    return os.strerror(number) if number else type(error).__name__
