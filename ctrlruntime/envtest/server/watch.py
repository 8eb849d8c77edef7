"""Watches: chunked JSON lines, each change encoded once for all watchers that see it alike."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from ctrlruntime.envtest.server import table
from ctrlruntime.envtest.server.errors import StatusError, too_old
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.reading import select
from ctrlruntime.envtest.server.request import Request, parse_version
from ctrlruntime.envtest.server.selectors import Selection
from ctrlruntime.envtest.server.state import State
from ctrlruntime.envtest.server.storage import Bucket, Change, Record

INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
_DEFAULT_TIMEOUT: Final = 1800.0
_BEFORE_END: Final = 2.0
_BATCH: Final = 256 * 1024
_SHORTEST = 0.001
"""Seconds that a wait takes at least: a clock that moves in steps may stand a rounding error before its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """Options of a watch request. `start` None begins with the current state as ADDED events."""

    start: int | None
    bookmarks: bool
    timeout: float
    initial_events: bool
    """sendInitialEvents: the state now, then a bookmark that ends it."""

    @classmethod
    def of(cls, request: Request) -> WatchOptions:
        query = request.query
        version = query.get("resourceVersion", "")
        initial = query.get("sendInitialEvents")
        match = query.get("resourceVersionMatch", "")
        if initial is not None and match != "NotOlderThan":
            text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
            raise _forbidden_option("resourceVersionMatch", text)
        if initial is None and match:
            text = (
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            )
            raise _forbidden_option("resourceVersionMatch", text)
        send = request.flag("sendInitialEvents")
        number = parse_version(version) if version else 0
        start = None if send or (number == 0 and initial is None) else number
        timeout = float(request.number("timeoutSeconds")) or _DEFAULT_TIMEOUT
        return cls(
            start=start,
            bookmarks=request.flag("allowWatchBookmarks"),
            timeout=timeout,
            initial_events=send and request.flag("allowWatchBookmarks"),
        )


def _forbidden_option(field: str, text: str) -> StatusError:
    cause = {"reason": "FieldValueForbidden", "message": f"Forbidden: {text}", "field": field}
    details = {"group": "meta.k8s.io", "kind": "ListOptions", "causes": [cause]}
    message = f'ListOptions.meta.k8s.io "" is invalid: {field}: Forbidden: {text}'
    return StatusError(422, "Invalid", message, details)


class Watch:
    """One watcher. Changes are queued as they happen; `lines` yields them as bytes to send."""

    def __init__(self, state: State, kind: Kind, request: Request) -> None:
        self.options = WatchOptions.of(request)
        self._state = state
        self._kind = kind
        self._version = request.version
        self._form = request.form
        self._include = table.included(request) if request.form == "table" else ""
        self._chosen: Selection = select(state, kind, request)
        self._bucket: Bucket = state.bucket(kind)
        self._queue: deque[Change] = deque()
        self._wake = asyncio.Event()
        self._overflow = False
        self._form_key = (kind.group, kind.epoch, request.version, request.form, self._include)
        self._sent_columns = False
        self._seen = 0

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Chunks of whole lines, until the timeout, an error event or a buffer that overflows."""
        try:
            start = self._first()
        except StatusError as error:
            yield _line("ERROR", orjson.dumps(error.status()))
            return
        self._bucket.watchers[id(self)] = self
        try:
            if start:
                yield start
            async for chunk in self._follow():
                yield chunk
        finally:
            self._bucket.watchers.pop(id(self), None)

    def _first(self) -> bytes:
        """Return what is sent at once: the current state, or the changes since the given revision."""
        revision = self._state.storage.revision
        self._seen = revision
        start = self.options.start
        if start is None:
            records = [r for r in self._bucket.scan(self._chosen.namespace) if self._wants(r)]
            lines = [self._encode("ADDED", record) for record in records]
            if self.options.initial_events:
                lines.append(self._bookmark(revision, initial=True))
            return b"".join(lines)
        if start < self._bucket.forgotten and start < revision:
            raise too_old(start, self._bucket.forgotten)
        self._seen = max(revision, start)
        return b"".join(self._line(change) for change in self._bucket.since(start))

    def _wants(self, record: Record) -> bool:
        return self._chosen.matches(record.obj)

    def deliver(self, change: Change) -> None:
        """Queue a change of the kind; too many end the watch."""
        namespace = self._chosen.namespace
        if namespace and change.record.namespace != namespace:
            return
        if len(self._queue) >= self._state.options.watch_buffer:
            self._fall_behind()
        else:
            self._queue.append(change)
        self._wake.set()

    def forget(self, revision: int) -> None:
        """End the watch if it has not sent what is forgotten now; its next start gets 410."""
        if self._queue and self._queue[0].revision <= revision:
            self._fall_behind()

    def end(self) -> None:
        """End the stream in order, as a server does that stops."""
        self._fall_behind()

    def _fall_behind(self) -> None:
        self._overflow = True
        self._queue.clear()
        self._wake.set()

    async def _follow(self) -> AsyncGenerator[bytes, None]:
        loop = asyncio.get_running_loop()
        end = loop.time() + self.options.timeout
        last_bookmark = loop.time()
        ended = False
        while not self._overflow:
            wait, bookmark_due = self._next_wait(loop.time(), end, last_bookmark, ended)
            await self._sleep(wait)
            chunk = self._drain()
            if chunk:
                yield chunk
            now = loop.time()
            if now >= end:
                return
            if not self._queue and bookmark_due is not None and now >= bookmark_due:
                last_bookmark, ended = now, bookmark_due >= end - _BEFORE_END
                yield self._bookmark(self._state.storage.revision)

    def _next_wait(
        self, now: float, end: float, last: float, ended: bool
    ) -> tuple[float, float | None]:
        if not self.options.bookmarks or ended:
            return end - now, None
        due = min(last + self._state.options.bookmark_interval, max(end - _BEFORE_END, now))
        return min(due, end) - now, due

    async def _sleep(self, seconds: float) -> None:
        if self._queue or self._overflow:
            return
        self._wake.clear()
        if seconds <= 0:
            return
        try:
            async with asyncio.timeout(max(seconds, _SHORTEST)):
                await self._wake.wait()
        except TimeoutError:
            pass

    def _drain(self) -> bytes:
        lines: list[bytes] = []
        size = 0
        while self._queue and size < _BATCH:
            change = self._queue.popleft()
            if change.revision <= self.start_after:
                continue
            line = self._line(change)
            if line:
                lines.append(line)
                size += len(line)
        return b"".join(lines)

    @property
    def start_after(self) -> int:
        """A watch that starts in the future waits for revisions after it."""
        return self.options.start or 0

    def _line(self, change: Change) -> bytes:
        """Return the change as this watcher sees it: objects enter and leave its selection."""
        chosen = self._chosen
        if chosen.namespace and change.record.namespace != chosen.namespace:
            return b""
        if chosen.everything:
            return self._shared(change.type, change)
        before = change.previous is not None and chosen.matches(change.previous.obj)
        if change.type == "DELETED":
            return self._shared("DELETED", change) if before else b""
        after = chosen.matches(change.record.obj)
        if after:
            return self._shared("MODIFIED" if before else "ADDED", change)
        return self._shared("DELETED", change) if before else b""

    def _shared(self, kind: str, change: Change) -> bytes:
        key = (kind, *self._form_key, self._needs_columns())
        line = change.lines.get(key)
        if line is None:
            record = change.record
            if kind == "DELETED" and change.type != "DELETED" and change.previous is not None:
                record = _left(change.previous, change.revision)
            line = change.lines[key] = self._encode(kind, record)
        self._sent_columns = True
        return line

    def _needs_columns(self) -> bool:
        return self._form == "table" and not self._sent_columns

    def _encode(self, kind: str, record: Record) -> bytes:
        state = self._state
        if self._form != "table":
            return _line(kind, state.encode(self._kind, record, self._version, self._form))
        rendered = table.render(
            self._kind,
            self._version,
            [state.shown(self._kind, record, self._version)],
            str(record.revision),
            include=self._include,
            headers=self._needs_columns(),
            now=state.options.clock(),
        )
        self._sent_columns = True
        return _line(kind, orjson.dumps(rendered))

    def _bookmark(self, revision: int, *, initial: bool = False) -> bytes:
        metadata: dict[str, Any] = {"resourceVersion": str(revision), "creationTimestamp": None}
        if initial:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        body: dict[str, Any]
        if self._form == "full":
            api_version = self._kind.api_version(self._version)
            body = {"kind": self._kind.kind, "apiVersion": api_version, "metadata": metadata}
        elif self._form == "partial":
            body = {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": metadata,
            }
        else:
            body = table.render(self._kind, self._version, [], str(revision), headers=False)
            row = {"kind": self._kind.kind, "apiVersion": self._kind.api_version(self._version)}
            body["rows"] = [{"cells": [], "object": {**row, "metadata": metadata}}]
        return _line("BOOKMARK", orjson.dumps(body))


def _left(previous: Record, revision: int) -> Record:
    """Return the last state seen by a watcher whose selection the object left, at the new revision."""
    key = (previous.namespace, previous.name)
    return Record(key, previous.load(), revision, previous.epoch)


def _line(kind: str, obj: bytes) -> bytes:
    return b'{"type":"' + kind.encode() + b'","object":' + obj + b"}\n"
