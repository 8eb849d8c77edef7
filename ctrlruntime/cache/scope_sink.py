"""One reflector's way into its informer."""

from collections.abc import Callable
from typing import Protocol

from ctrlruntime.cache.entry import Document, Entry
from ctrlruntime.cache.events import Event
from ctrlruntime.cache.object_decoder import ObjectDecoder
from ctrlruntime.cache.write_overlay import ListTicket, WriteOverlay


class ReplaceList(Protocol):
    """Takes over a list of one scope: a namespace, or ``""`` for all."""

    async def __call__(
        self,
        scope: str,
        ticket: ListTicket,
        entries: list[Entry],
        version: str,
        *,
        consistent: bool,
        trusted: bool,
    ) -> None:
        """Raise StaleList."""


class ScopeSink:
    """Puts what a reflector reads of one scope into store and handlers, past the overlay of own writes."""

    def __init__(
        self,
        scope: str,
        overlay: WriteOverlay,
        decoder: ObjectDecoder,
        *,
        reported: Callable[[bytes], Entry | None],
        observed: Callable[[Entry, Event | None], Event | None],
        replace: ReplaceList,
        emit: Callable[[Event], None],
        touched: Callable[[], None],
        watch_restarted: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.reported = reported
        self._observed = observed
        self.decode_listed = decoder.decode_listed
        self.decode_deleted = decoder.decode_deleted
        self.watch_restarted = watch_restarted
        self.failed = failed
        self._scope = scope
        self._overlay = overlay
        self._decoder = decoder
        self._replace = replace
        self._emit = emit
        self._touched = touched

    def decode(self, body: Document) -> Entry | None:
        held = self._decoder.held(body)
        return self._decoder.decode(body) if held is None else held

    def begin_list(self) -> ListTicket:
        return self._overlay.begin_list(self._scope)

    async def replace(
        self,
        ticket: ListTicket,
        entries: list[Entry],
        resource_version: str,
        *,
        consistent: bool,
        trusted: bool,
    ) -> None:
        await self._replace(
            self._scope,
            ticket,
            entries,
            resource_version,
            consistent=consistent,
            trusted=trusted,
        )

    def observe(self, entry: Entry, *, deleted: bool) -> None:
        self._touched()
        event = self._overlay.observe(self._scope, entry, deleted=deleted)
        if not deleted:
            event = self._observed(entry, event)
        if event is not None:
            self._emit(event)

    def bookmark(self, resource_version: str) -> None:
        self._touched()
        self._overlay.bookmark(self._scope, resource_version)
