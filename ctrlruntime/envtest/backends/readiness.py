"""Whether the server we started answers an administrator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import aiohttp

from ctrlruntime.client.config import Config

_TIMEOUT: Final = aiohttp.ClientTimeout(total=5)


async def answers_of(config: Config, paths: Iterable[str]) -> dict[str, bytes] | None:
    """Return a server's answer on each of `paths`; None where one does not answer 200.

    The certificate distinguishes this server from another process that took the port.
    """
    connector = aiohttp.TCPConnector(ssl=config.ssl_context() or False)
    found = {}
    headers = await config.auth.headers()
    async with aiohttp.ClientSession(
        connector=connector, timeout=_TIMEOUT, headers=headers
    ) as session:
        try:
            for path in paths:
                async with session.get(config.host + path) as answer:
                    if answer.status != 200:
                        return None
                    found[path] = await answer.read()
        except (aiohttp.ClientError, TimeoutError):
            return None
    return found
