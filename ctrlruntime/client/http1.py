"""One HTTP/1.1 connection: an asyncio protocol on the llhttp parser of httptools.

A request is written in the turn of the loop in which ``request`` is awaited, and its answer completes a future: no task, no context variable and no stream object for each request.
"""

from __future__ import annotations

import asyncio
import zlib
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from typing import Final, NamedTuple, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from ctrlruntime.client.answer_limits import LARGEST_HEAD, SMALL_PIECE, AnswerSize, AnswerTooLarge
from ctrlruntime.client.response_headers import RawHeader, ResponseHeaders

_PAUSE_ABOVE: Final = 2**19
"""Bytes of a streamed answer that wait to be read before no more are taken from the socket."""
_INFORMATIONAL: Final = range(100, 200)
_REDIRECTS: Final = range(300, 400)
_INPUT: Final = 2**16
"""Bytes that are taken from the socket at once. Without this buffer, uvloop makes one of 256 KiB for each read by TLS."""
_PIECE: Final = 2**20
"""Bytes that are decompressed at once: some milliseconds."""
_EARLY: Final = 0.001
"""Seconds by which a time limit may be early: a timer that is set for less would fire at once, again and again."""
_VERSION: Final = b"HTTP/1.1 "
_STATUS: Final = slice(len(_VERSION), len(_VERSION) + 3)
_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"\r\ncontent-length:"
_WITHOUT_BODY: Final = frozenset({b"204", b"205", b"304"})


class BrokenConnection(ConnectionError):
    """The connection ended, or was ended, before the whole answer was there."""


class Answer(NamedTuple):
    """Status and header fields; the body of a streamed answer comes by ``Connection.chunks``."""

    status: int
    headers: ResponseHeaders
    body: bytes


def read_buffer() -> memoryview:
    """Return what the connections of one event loop read into.

    They share it: what was read is copied or parsed before the loop reads from another one.
    """
    return memoryview(bytearray(_INPUT))


class Connection(asyncio.BufferedProtocol):
    """One exchange at a time. Made by a ConnectionPool, which also decides when it is used again."""

    def __init__(self, buffer: memoryview | None = None) -> None:
        """``buffer``: that of the other connections of this loop, see `read_buffer`."""
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._view = buffer if buffer is not None else read_buffer()
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        """When the answer has to be there; the timer stays over several requests, and looks again then."""
        self.idle_since = 0.0
        self.silent = True
        """Whether nothing came since the last request."""
        self._reusable = False
        self._reset()

    def _reset(self) -> None:
        self._clean = True
        """Whether all of this is as it is set here: no answer was parsed, and nothing failed."""
        self._waiter: asyncio.Future[Answer] | None = None
        """Completed by the whole answer, or by the head of one that is streamed."""
        self._streamed = False
        self._without_body = False
        self._informational = False
        self._status = 0
        self._headers: list[RawHeader] = []
        self._body: list[bytes] = []
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._paused = False
        self._ended = True
        self._error: Exception | None = None
        self._reader: asyncio.Future[None] | None = None
        self._last_read = 0.0
        self._size: AnswerSize | None = None
        self._without_progress = 0
        """Bytes that came since the last ones of a body."""

    @property
    def usable(self) -> bool:
        """Whether another request may be sent on it."""
        return self._reusable and self._ended and self._transport is not None

    def abort(self) -> None:
        """Close it now. What waits for an answer gets BrokenConnection."""
        self._reusable = False
        if self._transport is not None:
            self._transport.abort()

    # -- one exchange ----------------------------------------------------------------------

    async def request(
        self,
        data: bytes,
        *,
        timeout: float,
        streamed: bool = False,
        without_body: bool = False,
        size: AnswerSize | None = None,
    ) -> Answer:
        """Send a request and return its answer; only the head of one that is ``streamed``.

        ``without_body``: the answer has none, whatever its head announces (HEAD). ``size`` limits a body
        that is not streamed. Raises TimeoutError after ``timeout`` seconds, AnswerTooLarge and BrokenConnection.
        """
        waiter = self._send(data, streamed=streamed, without_body=without_body)
        self._size = size
        self._expire_in(timeout)
        try:
            return await waiter
        except BaseException:
            self.abort()
            raise
        finally:
            self._waiter = None

    def _expire_in(self, seconds: float) -> None:
        self._deadline = deadline = self._loop.time() + seconds
        if self._timer is not None:
            if self._timer.when() <= deadline:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(deadline, self._expire)

    def _expire(self) -> None:
        self._timer = None
        waiter = self._waiter
        if waiter is None or waiter.done():
            return  # the next request arms it
        if self._deadline - self._loop.time() > _EARLY:
            self._timer = self._loop.call_at(self._deadline, self._expire)
        else:
            waiter.set_exception(TimeoutError())

    def end_in(self, seconds: float) -> asyncio.TimerHandle:
        """Arrange for what is read then to fail by TimeoutError. Cancel what is returned once it is done."""
        return self._loop.call_later(seconds, self._overdue)

    def _overdue(self) -> None:
        if not self._ended:
            self._fail(TimeoutError())
            self.abort()

    async def chunks(self, inactivity: float) -> AsyncGenerator[bytes, None]:
        """Yield the body of a streamed answer as it comes. Raises TimeoutError when nothing came for ``inactivity`` seconds."""
        watchdog = _Watchdog(self, inactivity)
        try:
            while True:
                if self._chunks:
                    chunk = self._chunks.popleft() if len(self._chunks) == 1 else self._joined()
                    self._buffered = 0
                    if self._paused and self._transport is not None:
                        self._paused = False
                        self._transport.resume_reading()
                    yield chunk
                elif self._error is not None:
                    raise self._error
                elif self._ended:
                    return
                else:
                    await self._more(watchdog)
        finally:
            watchdog.cancel()
            if not self._ended:
                self.abort()  # a farewell by TLS would wait for the peer

    def _joined(self) -> bytes:
        found = b"".join(self._chunks)
        self._chunks.clear()
        return found

    async def _more(self, watchdog: _Watchdog) -> None:
        self._last_read = self._loop.time()
        self._reader = self._loop.create_future()
        watchdog.arm()
        try:
            await self._reader
        finally:
            self._reader = None

    def _send(self, data: bytes, *, streamed: bool, without_body: bool) -> asyncio.Future[Answer]:
        if self._transport is None:
            raise BrokenConnection("the connection was closed before the request was sent")
        if not self._clean:
            self._reset()
        self._ended = False
        self.silent = True
        self._streamed = streamed
        self._without_body = without_body
        waiter = self._waiter = self._loop.create_future()
        self._transport.write(data)
        return waiter

    # -- what asyncio calls ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._reusable = True

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        if self._ended or self._parser is None:
            self.abort()  # nothing was requested
            return
        data = self._view[:nbytes]
        if self.silent:
            self.silent = False
            if not (self._streamed or self._without_body):
                whole = whole_answer(bytes(data))
                if whole is not None:
                    self._ended = True
                    if self._size is not None:
                        try:
                            self._size.add(len(whole.body))
                        except AnswerTooLarge as error:
                            self._fail(error)
                            self.abort()
                            return
                    headers = ResponseHeaders(lines=whole.fields, special=whole.special)
                    self._answer(whole.status, headers, whole.body)
                    return
        self._clean = False
        self._without_progress += nbytes
        try:
            self._parser.feed_data(data)
            if self._without_progress > LARGEST_HEAD:
                raise AnswerTooLarge(
                    f"the answer has more than {LARGEST_HEAD:,} bytes of headers, which is the limit"
                )
        except AnswerTooLarge as error:
            self._fail(error)
            self.abort()
            return
        except (HttpParserError, HttpParserUpgrade) as error:
            cause = error.__context__ or error
            if isinstance(cause, AnswerTooLarge):
                self._fail(cause)
            else:
                self._fail(BrokenConnection(f"the answer is not HTTP/1.1: {cause}"))
            self.abort()
            return
        if self._reader is not None:
            self._last_read = self._loop.time()
            self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._parser = None  # it refers to this object
        self._reusable = False
        if self._ended:
            return
        if exc is None and self._status and self._reads_to_end_of_connection():
            self.on_message_complete()
            self._wake()
            return
        reason = str(exc) if exc is not None and str(exc) else "the server closed the connection"
        lost = BrokenConnection(f"{reason} before its answer was complete")
        lost.__cause__ = exc
        self._fail(lost)

    def _reads_to_end_of_connection(self) -> bool:
        names = {name.lower() for name, _ in self._headers}
        return not names & {b"content-length", b"transfer-encoding"}

    def _fail(self, error: Exception) -> None:
        self._clean = False
        self._ended = True
        self._error = error
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    # -- what the parser calls -------------------------------------------------------------

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        parser = self._parser
        if parser is None or self._ended:
            raise BrokenConnection("a second answer to one request")
        status = parser.get_status_code()
        self._informational = status in _INFORMATIONAL
        if self._informational:
            return
        self._status = status
        if self._streamed:
            self._answer(status, ResponseHeaders(self._headers), b"")
        elif self._without_body:
            self._reusable = False  # the parser expects the body that was announced
            self._answer(status, ResponseHeaders(self._headers), b"")
            self._ended = True

    def on_body(self, body: bytes) -> None:
        self._without_progress = 0
        if not self._streamed:
            if self._size is not None:
                self._size.add(max(len(body), SMALL_PIECE))
            self._body.append(body)
            return
        self._chunks.append(body)
        self._buffered += len(body)
        if self._buffered > _PAUSE_ABOVE and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self._informational:
            self._informational = False
            self._headers = []
            return
        if self._ended:
            return
        self._ended = True
        parser = self._parser
        self._reusable = self._reusable and parser is not None and parser.should_keep_alive()
        if not self._streamed:
            body = self._body
            whole = body[0] if len(body) == 1 else b"".join(body)
            self._answer(self._status, ResponseHeaders(self._headers), whole)

    def _answer(self, status: int, headers: ResponseHeaders, body: bytes) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(Answer(status, headers, body))


class _Watchdog:
    """One timer for a whole stream, set again only when it runs out, ends a wait that takes too long."""

    def __init__(self, connection: Connection, seconds: float) -> None:
        self._connection = connection
        self._seconds = seconds
        self._timer: asyncio.TimerHandle | None = None

    def arm(self) -> None:
        if self._timer is None:
            self._schedule(self._seconds)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(seconds, self._look)

    def _look(self) -> None:
        self._timer = None
        connection = self._connection
        reader = connection._reader
        if reader is None or reader.done():
            return  # the next wait arms it
        left = connection._last_read + self._seconds - asyncio.get_running_loop().time()
        if left > 0:
            self._schedule(left)
        else:
            reader.set_exception(TimeoutError())


class Inflater:
    """Decompresses a body that comes with ``Content-Encoding: gzip`` or ``deflate``, a bounded piece at a time."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)

    def pieces(self, chunk: bytes) -> Iterator[bytes]:
        """Yield what a chunk decompresses to. Raises BrokenConnection where it is not compressed so."""
        while chunk and not self._stream.eof:
            try:
                piece = self._stream.decompress(chunk, _PIECE)
            except zlib.error as error:
                raise BrokenConnection(f"the answer cannot be decompressed: {error}") from error
            chunk = self._stream.unconsumed_tail
            if piece:
                yield piece

    async def whole(self, body: bytes, size: AnswerSize | None = None) -> bytes:
        """Decompress a body that is complete, with a turn of the loop between two pieces. Raises AnswerTooLarge."""
        found = []
        for piece in self.pieces(body):
            if size is not None:
                size.add(len(piece))
            found.append(piece)
            if len(piece) == _PIECE:
                await asyncio.sleep(0)
        if body and not self._stream.eof:
            raise BrokenConnection("the compressed answer is cut off")
        return b"".join(found)


def inflater(headers: ResponseHeaders) -> Inflater | None:
    """Return what a body with these headers is decompressed by; None for one that is not compressed."""
    if "Content-Encoding" not in headers:
        return None
    coding = headers["Content-Encoding"].lower()
    return Inflater() if coding in ("gzip", "x-gzip", "deflate") else None


def is_redirect(status: int) -> bool:
    """Return whether the answer only names another address."""
    return status in _REDIRECTS


class WholeAnswer(NamedTuple):
    """An answer that came whole in one read, as nearly all do, cut apart and not parsed: the parser costs several calls a field."""

    status: int
    fields: bytes
    """The lines of the head's fields."""
    special: bool
    """Whether there may be warnings, or a compressed body."""
    body: bytes


def whole_answer(data: bytes) -> WholeAnswer | None:
    """Return the answer that ``data`` is, no more and no less; None where only the parser can tell.

    That is so of chunks, of several lengths, of folded lines, and where ``Connection`` has a say in whether more may
    follow.
    """
    start, line = data.find(_END), data.find(b"\r\n")
    status = data[_STATUS]
    if start <= line or data[: _STATUS.start] != _VERSION or status in _WITHOUT_BODY:
        return None
    head = data[line:start].lower()
    length = head.find(_LENGTH)
    if (
        length < 0
        or head.count(b"content-length") != 1
        or b"\nconnection" in head
        or b"\ntransfer-encoding" in head
        or b"\n " in head
        or b"\n\t" in head
        or b"\0" in head
    ):
        return None
    digits = head[length + len(_LENGTH) :].partition(b"\r\n")[0].strip(b" \t")
    body = data[start + len(_END) :]
    if not digits.isdigit() or not status.isdigit() or len(body) != int(digits):
        return None
    code = int(status)
    if not 200 <= code < 600:
        return None
    special = b"\nwarning" in head or b"\ncontent-encoding" in head
    return WholeAnswer(code, data[line + 2 : start + 2], special, body)
