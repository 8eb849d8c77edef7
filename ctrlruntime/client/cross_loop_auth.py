"""One identity on two event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from ctrlruntime.client.auth import (
    Authenticator,
    ClientCertificate,
    ExecAuth,
    FileAuth,
    StaticAuth,
)

PATIENCE = 0.2
"""Seconds that the other loop has to answer before what it said last is used again."""


def shared(auth: Authenticator, owner: asyncio.AbstractEventLoop) -> Authenticator:
    """``auth``, which belongs to the loop ``owner``, for use on another loop.

    A known one is made anew, and so waits for none. Any other is called on its own loop; while
    that is busy, the last credentials are used.
    """
    match auth:
        case StaticAuth():
            return auth
        case FileAuth() | ExecAuth():
            return auth.renewed()
        case _:
            return RelayedAuth(auth, owner)


class RelayedAuth:
    """Credentials that are had on another loop."""

    def __init__(self, auth: Authenticator, owner: asyncio.AbstractEventLoop) -> None:
        self._auth = auth
        self._owner = owner
        self._headers: Mapping[str, str] | None = None

    @property
    def renewable(self) -> bool:
        return self._auth.renewable

    @property
    def generation(self) -> int:
        return self._auth.generation

    @property
    def certificate(self) -> ClientCertificate | None:
        return self._auth.certificate

    async def headers(self, *, refused: Mapping[str, str] | None = None) -> Mapping[str, str]:
        asked = asyncio.run_coroutine_threadsafe(self._ask(refused), self._owner)
        answer = asyncio.wrap_future(asked)
        if refused is not None or self._headers is None:
            return await answer
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            async with asyncio.timeout(PATIENCE):
                return await asyncio.shield(answer)
        except TimeoutError:
            return self._headers

    async def _ask(self, refused: Mapping[str, str] | None) -> Mapping[str, str]:
        self._headers = await self._auth.headers(refused=refused)
        return self._headers
