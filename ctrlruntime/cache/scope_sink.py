"""One reflector's way into its informer."""

from collections.abc import Callable
from typing import Protocol

from ctrlruntime.cache.entry import Document, Entry
from ctrlruntime.cache.events import Event
from ctrlruntime.cache.object_decoder import ObjectDecoder
from ctrlruntime.cache.slot_watch import SlotWatch
from ctrlruntime.cache.versions import version
from ctrlruntime.cache.write_overlay import ListTicket, WriteOverlay
from ctrlruntime.sharding.slots import slot_of_labels


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
        slots: SlotWatch | None = None,
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
        self._slots = slots

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
        if self._slots is not None and not self._is_wanted(self._slots, entry, deleted):
            return
        event = self._overlay.observe(self._scope, entry, deleted=deleted)
        if not deleted:
            event = self._observed(entry, event)
        if event is not None:
            self._emit(event)

    def _is_wanted(self, slots: SlotWatch, entry: Entry, deleted: bool) -> bool:
        """Whether an event is to be taken in: not if it belongs to another process.

        What repeats another event may bring nothing back; of an object that is known its version decides. An object
        that was known here and belongs to another process has left; one whose slot is being dropped goes without an event.
        """
        slot = slot_of_labels(entry.labels)
        known = self._overlay.store.get(entry.name, namespace=entry.namespace)
        if known is not None and not slots.admits(slot_of_labels(known.labels)):
            self._overlay.drop([known.key])
            known = None
        if deleted and known is not None and _has_moved(known, entry):
            return False
        if slots.admits(slot):
            return known is not None or not slots.is_repeated(slot, version(entry))
        if known is not None:
            event = self._overlay.observe(self._scope, entry, deleted=True)
            if event is not None:
                self._emit(event)
        return False

    def bookmark(self, resource_version: str) -> None:
        self._touched()
        self._overlay.bookmark(self._scope, resource_version)


def _has_moved(known: Entry, gone: Entry) -> bool:
    """Whether a DELETED is the end of an object in its former slot, and the list of a slot that came had it in its new one.

    A relabelled object leaves the selector of the watch with the version of the very change, and with its former labels.
    That of a real deletion is later than all that is known.
    """
    moved = slot_of_labels(known.labels) != slot_of_labels(gone.labels)
    return moved and version(known) >= version(gone) > 0
