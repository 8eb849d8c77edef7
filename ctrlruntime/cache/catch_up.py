"""Proves that an informer is current, for who is about to act on it after a time as standby.

A watch may be open and silent, or late: what the store has is then older than what the leader before has
written. One list shows that; where the watch does not bring the rest within a moment, the informer lists anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass

import msgspec
from structlog.typing import FilteringBoundLogger

from ctrlruntime.cache.entry import Entry, Key
from ctrlruntime.cache.listwatch import ListWatch
from ctrlruntime.cache.versions import number, version
from ctrlruntime.cache.write_overlay import WriteOverlay
from ctrlruntime.client.auth import AuthError
from ctrlruntime.client.errors import APIError, Forbidden, NotFound, TransportError
from ctrlruntime.client.reads import list_items
from ctrlruntime.client.transport import list_meta

BOUND = 5.0
"""Seconds after which a leader starts with what it has."""
_FRESH = 1.0
"""Seconds for which a list proves that the informer is current."""
_PATIENCE = 1.0
"""Seconds for the watch to bring what a list shows, before the informer lists anew."""
_RETRY = 0.25
_SMALL = 100
"""Objects that are compared one by one; of a larger list the version alone shows whether the watch has come as far."""


@dataclass(frozen=True, slots=True)
class _Listed:
    """What a server has: its version, and the objects if they are few."""

    version: int
    objects: dict[Key, Entry] | None


class CatchUp:
    """Brings one informer up to what its server has.

    Call `listed` after each list of a scope, `progressed` whenever anything came.
    """

    def __init__(
        self,
        overlay: WriteOverlay,
        source: Callable[[str], ListWatch],
        decode: Callable[[msgspec.Raw], Entry | None],
        *,
        relist: Callable[[], None],
        clock: Callable[[], float],
        logger: FilteringBoundLogger,
    ) -> None:
        """`source`: for one scope. `relist` has the list read anew, in pages: a stream may be what is silent."""
        self._overlay = overlay
        self._source = source
        self._decode = decode
        self._relist = relist
        self._clock = clock
        self._log = logger
        self._listed_at: dict[str, float] = {}
        self._progress = asyncio.Event()
        self.progressed = self._progress.set

    def listed(self, scope: str) -> None:
        """Record that a list of the scope is through."""
        self._listed_at[scope] = self._clock()
        self._progress.set()

    async def run(self, scopes: tuple[str, ...], timeout: float = BOUND) -> None:
        """Return once everything is there that was committed before the call; after `timeout` seconds in any case."""
        late = [scope for scope in scopes if not self._is_fresh(scope)]
        try:
            async with asyncio.timeout(timeout):
                await asyncio.gather(*(self._catch_up(scope) for scope in late))
        except TimeoutError:
            self._log.warning(
                "the informer could not be proved current; what it has is used",
                timeout=timeout,
            )

    def _is_fresh(self, scope: str) -> bool:
        return self._clock() - self._listed_at.get(scope, float("-inf")) < _FRESH

    async def _catch_up(self, scope: str) -> None:
        while True:
            reported, listed_at = self._overlay.progress(scope), self._listed_at.get(scope)
            try:
                listed = await self._list(scope)
                break
            except (Forbidden, NotFound) as error:
                self._log.warning("the informer cannot be proved current", error=str(error))
                return
            except (APIError, TransportError, AuthError, msgspec.DecodeError) as error:
                self._log.warning("the server cannot be compared with yet", error=str(error))
                await asyncio.sleep(_RETRY)
        if 0 < listed.version < reported:
            # Restored from a backup. The store is ahead of it, so that no comparison shows what was lost.
            self._log.warning("the server is at an older version than it was; listing again")
            self._relist()
            while self._listed_at.get(scope) == listed_at:
                self._progress.clear()
                await self._progress.wait()
            return
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._wait_for(scope, listed)
        except TimeoutError:
            self._log.warning("the watch lags behind the server; listing again")
            self._relist()
            await self._wait_for(scope, listed)

    async def _list(self, scope: str) -> _Listed:
        few = sum(1 for _ in self._entries(scope)) <= _SMALL
        pages = self._source(scope).pages(limit=_SMALL if few else 1)
        objects: dict[Key, Entry] = {}
        async with aclosing(pages):
            async for page in pages:
                meta = list_meta(page)
                entries = (self._decode(item) for item in list_items(page))
                objects = {entry.key: entry for entry in entries if entry is not None}
                return _Listed(number(meta.resource_version), None if meta.continue_ else objects)
        return _Listed(0, objects)

    async def _wait_for(self, scope: str, listed: _Listed) -> None:
        while True:
            self._progress.clear()
            if self._has(scope, listed):
                return
            await self._progress.wait()

    def _has(self, scope: str, listed: _Listed) -> bool:
        """Whether the store has come as far: by the watch's word, or since it holds the same."""
        if self._overlay.takes_over(scope):
            return False
        if self._overlay.progress(scope) >= listed.version > 0:
            return True
        if listed.objects is None:
            return False
        kept = {entry.key: entry for entry in self._entries(scope)}
        return all(
            _is_as_new(kept.get(key), entry) for key, entry in listed.objects.items()
        ) and all(
            key in listed.objects or version(entry) > listed.version for key, entry in kept.items()
        )

    def _entries(self, scope: str) -> Iterator[Entry]:
        return (entry for entry in self._overlay.store if not scope or entry.namespace == scope)


def _is_as_new(kept: Entry | None, listed: Entry) -> bool:
    if kept is None:
        return False
    return kept.resource_version == listed.resource_version or version(kept) > version(listed)
