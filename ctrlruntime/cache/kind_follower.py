"""Follows a kind while the server has it, and looks for it while the server has not."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from ctrlruntime.cache.reflector import KindMissing
from ctrlruntime.client.auth import AuthError
from ctrlruntime.client.errors import APIError, NoKindMatch, TransportError
from ctrlruntime.side_by_side import first_to_end

_FIRST_RETRY = 0.25
_RECHECKS = (1.0, 4.0, 16.0)
"""Seconds from one check to the next after the CRD of a kind was deleted."""


class KindFollower:
    """Runs list and watch of one kind; a kind that the server lacks is looked for again."""

    def __init__(
        self,
        *,
        resolve: Callable[[], Awaitable[None]],
        reflect: Callable[[bool], Coroutine[Any, Any, None]],
        retry: float,
        missing: Callable[[Exception], None],
        discovery_failed: Callable[[Exception], None],
    ) -> None:
        """``resolve`` raises NoKindMatch, ``reflect`` KindMissing; it is passed whether to begin with a list.

        ``retry``: the longest wait in seconds.
        """
        self._resolve = resolve
        self._reflect = reflect
        self._retry = retry
        self._missing = missing
        self._discovery_failed = discovery_failed
        self._discovery = asyncio.Event()
        self._recheck = asyncio.Event()
        self._rechecks: list[float] = []
        self._anew = True

    def discovery_changed(self) -> None:
        """Look for the kind again: a missing one may have appeared."""
        self._discovery.set()

    def check_served(self) -> None:
        """Read the list again, now and a few times in the next half a minute, unless the kind is gone."""
        self._rechecks = list(_RECHECKS)
        self.relist()

    def relist(self) -> None:
        """Read the list again, once, unless the kind is gone."""
        self._anew = True
        self._recheck.set()

    def go_on(self) -> None:
        """Watch with another selection, from where the watch came to."""
        self._recheck.set()

    async def run(self) -> None:
        """Follow the kind until cancelled."""
        delay = self._retry
        while True:
            self._discovery.clear()
            try:
                await self._resolve()
                self._anew = True
                while True:
                    self._recheck.clear()
                    anew, self._anew = self._anew, False
                    await first_to_end(self._reflect(anew), self._until_recheck())
            except (KindMissing, NoKindMatch) as error:
                self._rechecks = []
                self._missing(error)
            except (APIError, TransportError, AuthError) as error:
                self._discovery_failed(error)
            changed = await self._discovery_within(delay)
            delay = _FIRST_RETRY if changed else min(delay * 2, self._retry)

    async def _until_recheck(self) -> None:
        delay = self._rechecks.pop(0) if self._rechecks else None
        try:
            async with asyncio.timeout(delay):
                await self._recheck.wait()
        except TimeoutError:
            self._anew = True

    async def _discovery_within(self, seconds: float) -> bool:
        """Whether discovery changed: then the kind is looked for more often for a while."""
        try:
            async with asyncio.timeout(seconds):
                await self._discovery.wait()
        except TimeoutError:
            return False
        return True
