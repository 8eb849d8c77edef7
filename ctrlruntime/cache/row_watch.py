"""A watch of table rows in place of whole objects, for a process that works on some of the objects of a kind.

The first list has whole objects. The watch then has a row of a few hundred bytes for each change, by the columns of the
kind. What this process works on is read whole before its change is visible. Of all others a row that shows another status
changes what is stored of that, and an object of another generation is stored with that alone: both are *behind* until
`complete` reads them. A status is a subresource: a write of it changes nothing else, and an event of a watch is one write.
So what shows neither may be a change of the metadata, and is read at once too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec
from structlog.typing import FilteringBoundLogger

from ctrlruntime.backoff import exponential
from ctrlruntime.cache.entry import Document, Entry, Key
from ctrlruntime.cache.events import DeleteEvent, Event
from ctrlruntime.cache.store import Store
from ctrlruntime.cache.versions import number, version
from ctrlruntime.client.auth import AuthError
from ctrlruntime.client.errors import APIError, TransportError
from ctrlruntime.sharding.slots import slot_of

FEW: Final = 20
"""Objects that are read one by one; more of them by a list of their slots."""
FIRST_RETRY, LAST_RETRY = 1.0, 30.0
"""Seconds until what could not be read is tried again."""
_NOT_READ: Final = (APIError, TransportError, AuthError, msgspec.DecodeError, TimeoutError)
Cells = Mapping[str, Any]
"""A row, by the titles of its columns."""


class RowColumns(Protocol):
    """What the columns of a kind show of an object."""

    @property
    def titles(self) -> Collection[str]:
        """Those that are needed. A server whose columns are older is watched by whole objects."""

    def identity(self, cells: Cells) -> Entry:
        """Return the object with the metadata that a row shows; its version is filled in."""

    def shown(self, entry: Entry) -> tuple[object, ...]:
        """Return what the columns show of an object's status."""

    def status(self, cells: Cells) -> tuple[tuple[object, ...], msgspec.Raw]:
        """Return the same by a row, and the status with nothing else."""

    def is_wanted(self, cells: Cells) -> bool:
        """Whether an object is read whole at once, of whichever process it is."""

    def is_enough(self, entry: Entry) -> bool:
        """Whether of the status of another process's object no more is needed than its row shows."""


class _Row(msgspec.Struct, gc=False):
    cells: list[Any]


class _Column(msgspec.Struct, gc=False):
    name: str


class _Meta(msgspec.Struct, gc=False, rename="camel"):
    resource_version: str = ""


_rows = msgspec.json.Decoder(list[_Row])
_columns = msgspec.json.Decoder(list[_Column] | None)
_meta = msgspec.json.Decoder(_Meta)


class RowWatch:
    """The rows of one informer, and which of its objects are behind them."""

    def __init__(
        self,
        columns: RowColumns,
        store: Store,
        logger: FilteringBoundLogger,
        is_open: Callable[[Key], bool],
    ) -> None:
        """`is_open`: whether a write of an object is under way, whose answer has it whole."""
        self.usable = True
        """Whether the server's columns show what is needed."""
        self.slots: frozenset[int] = frozenset()
        """Those whose objects this process works on."""
        self.read: Callable[[Collection[Key]], Awaitable[None]]
        """Reads objects whole, from the server into the store."""
        self._needed = columns
        self._store = store
        self._log = logger
        self._is_open = is_open
        self._titles: list[str] = []
        self._behind: dict[Key, str] = {}
        """By object that is not stored whole, the version of its last row."""
        self._unread: set[Key] = set()
        """Of these, those of which more than the status is not known."""
        self._wanted: set[Key] = set()
        """Of these, those that are read at once."""
        self._wake = asyncio.Event()

    def __call__(self, event: Event) -> None:
        """Forget what is gone. An event handler."""
        if isinstance(event, DeleteEvent):
            self._forget(event.old.key)

    # -- rows ------------------------------------------------------------------------------

    def take(self, document: Document, *, deleted: bool) -> tuple[Entry | None, str]:
        """Return the state to store for a row, if any, and its version. Raises TransportError where columns are missing."""
        if found := _columns.decode(document.get("columnDefinitions", b"null")):
            self._titles = [each.name for each in found]
        if missing := {*self._needed.titles} - {*self._titles}:
            self.usable = False
            raise TransportError(
                f"the kind's definition lacks the columns {', '.join(sorted(missing))}: whole objects are watched"
            )
        at = _meta.decode(document["metadata"]).resource_version
        cells = dict(zip(self._titles, _rows.decode(document["rows"])[0].cells, strict=True))
        row = msgspec.structs.replace(self._needed.identity(cells), resource_version=at)
        known = self._store.get_by_key(row.key)
        if deleted:
            return self._deleted(row, known), at
        if known is not None and number(known.resource_version) >= number(at):
            return (known if known.resource_version == at else None), at
        if self._is_own(row.key) or self._needed.is_wanted(cells):
            self._want(row)
            return None, at
        if known is None or known.uid != row.uid:
            return self._behind_of(row, row, unread=True), at
        return self._state(known, row, cells), at

    def _deleted(self, row: Entry, known: Entry | None) -> Entry:
        """Return the last state of an object that is gone."""
        if known is None:
            self._forget(row.key)
        if known is None or known.uid != row.uid:
            return row
        return msgspec.structs.replace(known, resource_version=row.resource_version)

    def _state(self, known: Entry, row: Entry, cells: Cells) -> Entry | None:
        """Return the state of another process's object that is known, by a newer row; None if it has to be read."""
        shown, status = self._needed.status(cells)
        at = row.resource_version
        if (known.generation, known.deletion_timestamp) == (row.generation, row.deletion_timestamp):
            if shown == self._needed.shown(known):
                self._want(row)  # its metadata may have changed
                return None
            fields = {**known.fields, "status": status}
            state = msgspec.structs.replace(known, resource_version=at, fields=fields)
            return self._behind_of(row, state, unread=False)
        state = msgspec.structs.replace(
            known,
            resource_version=at,
            generation=row.generation,
            deletion_timestamp=row.deletion_timestamp,
        )
        return self._behind_of(row, state, unread=True)

    def _behind_of(self, row: Entry, state: Entry, *, unread: bool) -> Entry:
        """Return a state that is not whole, and note that. `unread`: more than the status is missing."""
        self._behind[row.key] = row.resource_version
        if unread:
            self._unread.add(row.key)
        return state

    def _want(self, row: Entry) -> None:
        """Have an object read at once. What is stored of it stays until then."""
        self._behind_of(row, row, unread=True)
        self._wanted.add(row.key)
        self._wake.set()

    def _is_own(self, key: Key) -> bool:
        return slot_of(key[1], namespace=key[0]) in self.slots

    # -- whole objects ---------------------------------------------------------------------

    def is_behind(self, key: Key) -> bool:
        """Whether an object is not stored whole as of its last row."""
        return key in self._behind

    def stored(self, entry: Entry) -> None:
        """Note that a whole object was read: if it is what is stored, it is behind no more."""
        at = self._behind.get(entry.key)
        is_newest = at is not None and version(entry) >= number(at)
        if is_newest and self._store.get_by_key(entry.key) is entry:
            self._forget(entry.key)

    def absent(self, key: Key) -> None:
        """Note that the server has no such object."""
        self._wanted.discard(key)
        if self._store.get_by_key(key) is None:
            self._forget(key)

    def _forget(self, key: Key) -> None:
        if self._behind.pop(key, None) is not None:
            self._unread.discard(key)
            self._wanted.discard(key)

    def ended(self, key: Key) -> None:
        """Note that a write of an object has ended: it is read if its answer did not bring it."""
        if key in self._wanted:
            self._wake.set()

    async def take_slots(self, slots: frozenset[int]) -> None:
        """Work on the objects of slots from now on. Returns when they are stored whole; raises what reading them raises."""
        self.slots |= slots
        await self.complete(
            key for key in self._behind if slot_of(key[1], namespace=key[0]) in slots
        )

    def drop_slots(self, slots: frozenset[int]) -> None:
        """Leave slots to another process."""
        self.slots -= slots

    async def known(self) -> None:
        """Read all of which more than the status is not known."""
        if self._unread:
            await self.complete(self._unread)

    async def needed(self) -> None:
        """Read all of which more is needed than what a row shows."""
        found = set(self._unread)
        for place, key in enumerate(list(self._behind), 1):
            entry = self._store.get_by_key(key)
            if entry is not None and not self._needed.is_enough(entry):
                found.add(key)
            if place % 200 == 0:
                await asyncio.sleep(0)
        await self.complete(found)

    async def all(self) -> None:
        """Read all that are behind."""
        await self.complete(list(self._behind))

    async def complete(self, keys: Iterable[Key]) -> None:
        """Read those of the objects that are behind. Raises what that raises."""
        if found := [key for key in keys if key in self._behind]:
            await self.read(found)

    async def run(self) -> None:
        """Read what this process works on, and what it waits for, until cancelled."""
        failures = 0
        if self._wanted:  # of a run that was cut off
            self._wake.set()
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self.complete(key for key in list(self._wanted) if not self._is_open(key))
            except _NOT_READ as error:
                self._log.warning("objects that changed cannot be read", error=str(error))
                await asyncio.sleep(exponential(FIRST_RETRY, LAST_RETRY, failures))
                failures += 1
                self._wake.set()
            else:
                failures = 0

    async def caught_up(self, timeout: float) -> None:
        """Return when what this process works on is stored whole as of the rows that have come; after `timeout` seconds in any case."""
        try:
            async with asyncio.timeout(timeout):
                await self.complete(list(self._wanted))
        except _NOT_READ as error:
            self._log.warning("objects that changed cannot be read yet", error=str(error))
            self._wake.set()


def is_row(document: Document) -> bool:
    """Whether what a server sent is a row, or an object."""
    return "rows" in document and "columnDefinitions" in document
