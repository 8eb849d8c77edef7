"""Keeps a sink in step with a server: list, then watch, for ever, whatever goes wrong."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
import orjson
import structlog
from structlog.typing import FilteringBoundLogger

from ctrlruntime.backoff import Backoff, BackoffOptions
from ctrlruntime.cache.entry import Document, Entry, Key, split_carefully
from ctrlruntime.cache.listwatch import ListWatch, WatchRequest
from ctrlruntime.cache.versions import number
from ctrlruntime.cache.write_overlay import ListTicket, StaleList
from ctrlruntime.client.auth import AuthError
from ctrlruntime.client.errors import (
    APIError,
    BadRequest,
    Expired,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    Timeout,
    TransportError,
    error_of_status,
)
from ctrlruntime.client.reads import list_items
from ctrlruntime.client.transport import list_meta
from ctrlruntime.clock import draw, monotonic
from ctrlruntime.intake.limits import Malformed
from ctrlruntime.intake.shallow import split_members

INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_BREATH = 200  # objects decoded before other tasks get a turn: about 3 ms
_BREATH_BYTES = 2**18  # the same, as objects that are nested too deep take 40 ms for a megabyte
_SILENCE = 0.9  # of the inactivity: a watch that broke that late broke because nothing came
_WORKED = (
    5.0  # a watch that lasted so long, or had events, was no failure when its connection is cut
)
_AWAY = frozenset({502, 503})  # answers of a proxy whose server is down, and of one that starts
_SHORT_WATCHES = 3  # watches in turn that end at once and empty before the reflector lists again
_EVENTS = 20  # the same for events of a watch, whose handlers run at once: about 5 ms


class _Turn:
    """Counts what is decoded in one turn of the loop."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = self._bytes = 0

    def is_over(self, body: bytes | msgspec.Raw) -> bool:
        """Count one object. Returns whether other tasks are to get a turn now."""
        self._count += 1
        self._bytes += len(body)
        if self._count < self._most and self._bytes < _BREATH_BYTES:
            return False
        self._count = self._bytes = 0
        return True


class KindMissing(Exception):
    """The server does not serve the kind."""


@dataclass(slots=True)
class ServerFeatures:
    """What has been learnt of a server, shared by all reflectors of a cache."""

    streaming_lists: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectorOptions:
    """Times in seconds. Clock, random and sleep are given by tests that run on a virtual clock."""

    page_size: int = 500
    watch_timeout: tuple[float, float] = (300.0, 600.0)
    first_inactivity: float = 30.0
    """A list read as the head of a stream that is silent for this long is read in pages: well before
    `cache_sync_timeout` ends the start."""
    inactivity: float = 120.0
    """A watch silent for this long is taken up again, once the server has confirmed its version; servers send
    a bookmark every minute."""
    streaming: bool = True
    backoff: BackoffOptions = field(default_factory=BackoffOptions)
    short_watch: float = 1.0
    """A watch that ends sooner and without events counts as a failure."""
    clock: Callable[[], float] = monotonic
    random: Callable[[], float] = draw
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class Sink(Protocol):
    """Where a reflector puts what it reads."""

    def reported(self, line: bytes) -> Entry | None:
        """Return the entry whose state an event reports, if that is certain without decoding it."""

    def decode(self, body: Document) -> Entry | None:
        """None for an object that cannot be kept; the sink reports it."""

    def decode_listed(self, body: msgspec.Raw | Document) -> Entry | None:
        """Return the same for an object of a list: a kept state, if this one cannot be kept."""

    def decode_deleted(self, body: msgspec.Raw | Document) -> Entry | None:
        """Return the same for the last state of a deleted object."""

    def begin_list(self) -> ListTicket: ...

    async def replace(
        self,
        ticket: ListTicket,
        entries: list[Entry],
        resource_version: str,
        *,
        consistent: bool,
        trusted: bool,
    ) -> None:
        """Raise StaleList."""

    def observe(self, entry: Entry, *, deleted: bool) -> None: ...

    def bookmark(self, resource_version: str) -> None: ...

    def watch_restarted(self) -> None: ...

    def failed(self, error: Exception) -> None: ...


class _Event(msgspec.Struct, gc=False):
    """The object is split in the same pass."""

    type: str
    object: Document


class _Bookmark(msgspec.Struct, rename="camel", gc=False):
    resource_version: str
    annotations: dict[str, str] | None = None


_event_decoder = msgspec.json.Decoder(_Event)
_bookmark_decoder = msgspec.json.Decoder(_Bookmark)


class _OlderServer(Exception):
    """A watch reported a version below the one that it began at: the server was restored to an older state."""


class _NoInitialEvents(Exception):
    """A stream ended, or was refused, before the end of its list part."""


class Reflector:
    """One list and watch. ``run`` ends only by cancellation, or by KindMissing."""

    _STALE_LISTS = 3  # lists older than what is known before the server is believed all the same
    _SETTLING = 10.0  # a version refused within these seconds of being listed is no reason to hurry

    def __init__(
        self,
        source: ListWatch,
        sink: Sink,
        options: ReflectorOptions,
        *,
        features: ServerFeatures | None = None,
        in_pages: bool = False,
        version: str = "",
        name: str = "",
        logger: FilteringBoundLogger | None = None,
    ) -> None:
        """`in_pages`: read the first list in pages, not as the head of a stream. `version`: watch from there, without a list."""
        self._source = source
        self._sink = sink
        self._options = options
        self._features = features or ServerFeatures()
        self._backoff = Backoff(options.backoff, clock=options.clock, random=options.random)
        self._log: FilteringBoundLogger = (
            logger if logger is not None else structlog.get_logger("ctrlruntime.cache")
        ).bind(kind=name)
        self._version = version
        self._listed_at = float("-inf")
        self._watches = 0
        self._in_pages = in_pages
        self._asked_for_stream = False
        self._stale_lists = 0
        self._not_older_than: str | None = None
        self._silent = False
        """Whether the last watch ended in silence, as on a server that has not come as far as its version."""
        self._short_watches = 0
        self._was_away = False
        """Whether the server, or a proxy before it, could not be reached since it confirmed the version: it may be another."""

    @property
    def version(self) -> str:
        """Where the next watch starts; empty when a list comes first."""
        return self._version

    async def run(self) -> None:
        """Raise KindMissing when the server does not serve the kind."""
        while True:
            wait = 0.0
            try:
                if not await self._turn():
                    wait = self._backoff.delay()
            except (
                APIError,
                TransportError,
                AuthError,
                StaleList,
                _NoInitialEvents,
                _OlderServer,
                msgspec.DecodeError,
            ) as error:
                wait = self._failed(error)
            if wait:
                await self._options.sleep(wait)

    async def _turn(self) -> bool:
        """One list where needed, and one watch. False if the next should wait."""
        if self._version and (self._silent or self._was_away):
            await self._check_version()
        self._asked_for_stream = not self._version and self._streams()
        if not self._version:
            if self._asked_for_stream:
                return await self._watch(initial_events=True)
            await self._list()
        return await self._watch()

    def _streams(self) -> bool:
        return (
            self._options.streaming
            and self._features.streaming_lists
            and not self._in_pages
            and self._not_older_than is None
        )

    def _failed(self, error: Exception) -> float:
        """Return how long to wait after a failure before the next turn."""
        if isinstance(error, NotFound):
            raise KindMissing(str(error)) from error
        self._sink.failed(error)
        if isinstance(error, StaleList):
            return self._stale(error)
        if not self._version and self._asked_for_stream:
            return self._stream_failed(error)
        if isinstance(error, Gone):
            self._log.info("watch expired, listing again", version=self._version)
            self._version = ""
            if self._options.clock() - self._listed_at >= self._SETTLING:
                return 0.0
        elif isinstance(error, _OlderServer) or (
            isinstance(error, Timeout) and error.is_too_large_resource_version
        ):
            self._version = ""
            self._stale_lists += 1
            self._not_older_than = None
        else:
            level = self._log.error if isinstance(error, Forbidden) else self._log.warning
            level("list or watch failed", error=str(error), version=self._version)
        if isinstance(error, TransportError) or (
            isinstance(error, APIError) and error.code in _AWAY
        ):
            self._was_away = True
        asked = error.retry_after if isinstance(error, APIError) else None
        return max(self._backoff.delay(), asked or 0.0)

    def _stale(self, error: StaleList) -> float:
        self._stale_lists += 1
        self._not_older_than = str(error.newest)
        self._log.warning("a list older than what is known was refused", error=str(error))
        return 0.0 if self._stale_lists == 1 else self._backoff.delay()

    def _stream_failed(self, error: Exception) -> float:
        """Any failure before the end of the initial events: the next list is read in pages."""
        self._in_pages = True
        if isinstance(error, Invalid | BadRequest):
            self._features.streaming_lists = False
            self._log.info("the server has no streaming lists, listing in pages", error=str(error))
            return 0.0
        self._log.warning("streaming list failed, listing in pages", error=str(error))
        return self._backoff.delay()

    # -- lists -----------------------------------------------------------------------------

    async def list_once(self) -> None:
        """Read one list into the sink, and watch nothing. Raises what the list raises, and StaleList."""
        await self._list()

    async def _list(self) -> None:
        ticket = self._sink.begin_list()
        entries, version = await self._read_list()
        await self._take(ticket, entries, version)

    async def _take(self, ticket: ListTicket, entries: list[Entry], version: str) -> None:
        """Pass a list to the sink.

        A server that keeps giving older lists was restored from a backup: after three it is believed.
        """
        await self._sink.replace(
            ticket,
            entries,
            version,
            consistent=self._not_older_than is None,
            trusted=self._stale_lists >= self._STALE_LISTS,
        )
        self._stale_lists = 0
        self._not_older_than = None
        self._in_pages = False
        self._silent = self._was_away = False
        self._version = version
        self._listed_at = self._options.clock()

    async def _read_list(self) -> tuple[list[Entry], str]:
        try:
            return await self._read_pages(self._options.page_size)
        except Expired:
            # The list grew too old between two pages; read whole, it cannot.
            return await self._read_pages(0)

    async def _check_version(self) -> None:
        """Have the server confirm that it has come as far as the version that the watch begins at.

        One that was restored from an older backup keeps such a watch open and sends nothing, so that changes
        would be lost until it has come as far again. It refuses a list by `Timeout`; see `_failed`.
        """
        pages = self._source.pages(limit=1, not_older_than=self._version)
        async with aclosing(pages):
            async for page in pages:
                if number(list_meta(page).resource_version) < number(self._version):
                    self._version = ""
                break
        self._silent = self._was_away = False

    async def _read_pages(self, limit: int) -> tuple[list[Entry], str]:
        entries: list[Entry] = []
        version = ""
        pages = self._source.pages(limit=limit, not_older_than=self._not_older_than)
        async with aclosing(pages):
            async for page in pages:
                version = list_meta(page).resource_version
                await self._decode_items(list_items(page), entries)
        return entries, version

    async def _decode_items(self, items: Iterable[msgspec.Raw], entries: list[Entry]) -> None:
        turn = _Turn(_BREATH)
        for item in items:
            entry = self._sink.decode_listed(item)
            if entry is not None:
                entries.append(entry)
            if turn.is_over(item):
                await asyncio.sleep(0)

    # -- watches ---------------------------------------------------------------------------

    async def _watch(self, *, initial_events: bool = False) -> bool:
        """Until the server ends it. False if that was suspiciously soon."""
        if self._watches:
            self._sink.watch_restarted()
        self._watches += 1
        started = self._options.clock()
        events, turn = 0, _Turn(_EVENTS)
        lines = self._source.watch(
            WatchRequest(
                resource_version=None if initial_events else self._version,
                timeout=self._watch_timeout(),
                inactivity=self._options.inactivity,
                initial_events=initial_events,
            )
        )
        try:
            async with aclosing(lines):
                if initial_events:
                    await self._initial_events(lines)
                    events += 1
                async for line in lines:
                    self._line(line)
                    events += 1
                    if turn.is_over(line):
                        await asyncio.sleep(0)
        except TransportError as error:
            self._silent = not events and self._was_silent(started)
            lasted = self._options.clock() - started
            worked = lasted >= (self._options.short_watch if events else _WORKED)
            if self._silent or not self._version or not worked or not error.sent:
                raise
            self._log.debug("watch cut off, going on", error=str(error), version=self._version)
        return self._ended(events, self._options.clock() - started)

    def _ended(self, events: int, lasted: float) -> bool:
        """Note the end of a watch. Returns False if it came suspiciously soon."""
        if events or lasted >= self._options.short_watch:
            self._short_watches = 0
            return True
        self._short_watches += 1
        self._sink.failed(TransportError("the watch ended at once and without events"))
        if self._short_watches >= _SHORT_WATCHES:
            self._log.warning("watches end at once, listing again", version=self._version)
            self._short_watches = 0
            self._version = ""
        return False

    def _was_silent(self, started: float) -> bool:
        """Whether a watch that broke now did so because nothing came."""
        return self._options.clock() - started >= _SILENCE * self._options.inactivity

    def _line(self, line: bytes) -> None:
        """One event of a watch."""
        own = self._sink.reported(line)
        if own is not None:
            self._sink.observe(own, deleted=False)
            self._version = own.resource_version
            return
        event = _event(line)
        kind = event.type
        if kind == "BOOKMARK":
            self._advance(_bookmark(event.object).resource_version)
            self._sink.bookmark(self._version)
        elif kind == "ERROR":
            raise _error(event.object)
        elif kind not in ("ADDED", "MODIFIED", "DELETED"):
            self._log.warning("unknown watch event", type=kind)
        elif (entry := self._decode_event(event)) is not None:
            self._check_newer(entry.resource_version)
            self._sink.observe(entry, deleted=kind == "DELETED")
            self._version = entry.resource_version

    def _advance(self, version: str) -> None:
        self._check_newer(version)
        self._version = version

    def _check_newer(self, version: str) -> None:
        """Raise _OlderServer for a version below the last one, where both can be compared."""
        if 0 < number(version) < number(self._version):
            raise _OlderServer(f"the server is at version {version}, before {self._version}")

    def _decode_event(self, event: _Event) -> Entry | None:
        if event.type == "DELETED":
            return self._sink.decode_deleted(event.object)
        return self._sink.decode(event.object)

    async def _initial_events(self, lines: AsyncGenerator[bytes, None]) -> None:
        """Read the list part of a stream; nothing of it is visible before its end."""
        ticket = self._sink.begin_list()
        try:
            entries, version = await self._streamed_list(lines)
        except TimeoutError as error:
            raise _NoInitialEvents(
                "the stream fell silent before its initial events ended"
            ) from error
        await self._take(ticket, entries, version)

    async def _streamed_list(self, lines: AsyncGenerator[bytes, None]) -> tuple[list[Entry], str]:
        """Raise TimeoutError when nothing came for `first_inactivity` seconds."""
        found: dict[Key, Entry] = {}
        async with asyncio.timeout(self._options.first_inactivity) as silence:
            now, moved, turn = asyncio.get_running_loop().time, 0.0, _Turn(_BREATH)
            async for line in lines:
                if now() - moved >= 1.0:
                    moved = now()
                    silence.reschedule(moved + self._options.first_inactivity)
                event = _event(line)
                if event.type == "ERROR":
                    raise _error(event.object)
                if event.type == "BOOKMARK":
                    metadata = _bookmark(event.object)
                    if (metadata.annotations or {}).get(INITIAL_EVENTS_END) == "true":
                        return list(found.values()), metadata.resource_version
                elif (entry := self._sink.decode_listed(event.object)) is not None:
                    if event.type == "DELETED":
                        found.pop(entry.key, None)
                    else:
                        found[entry.key] = entry
                if turn.is_over(line):
                    await asyncio.sleep(0)
        raise _NoInitialEvents("the stream ended before the end of its initial events")

    def _watch_timeout(self) -> float:
        low, high = self._options.watch_timeout
        return low + (high - low) * self._options.random()


def _event(line: bytes) -> _Event:
    """Split one line. Raises DecodeError for one that is not an event; what it is about may be of any depth."""
    try:
        return _event_decoder.decode(line)
    except (RecursionError, msgspec.DecodeError) as error:
        try:
            members = split_members(line)
            body = split_carefully(members["object"])
            return _Event(str(orjson.loads(members["type"])), body)
        except (Malformed, KeyError, orjson.JSONDecodeError):
            if isinstance(error, msgspec.DecodeError):
                raise error from None
            raise msgspec.DecodeError("an event without type or object") from None


def _bookmark(document: Document) -> _Bookmark:
    return _bookmark_decoder.decode(document.get("metadata", msgspec.Raw(b"{}")))


def _error(status: Document) -> APIError:
    return error_of_status({name: orjson.loads(memoryview(raw)) for name, raw in status.items()})
