"""One connection of the manager's own HTTP server: an asyncio protocol on the llhttp parser of httptools."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser, parse_url

from ctrlruntime.manager.http_message import ServerRequest, ServerResponse

__all__ = ["HTTPConnection", "HTTPLimits"]

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class HTTPLimits:
    """What a client may take of a server. The times are those of controller-runtime's servers."""

    request_bytes: int = 64 * 1024
    """For the line and the header fields, and for the body, which is not read."""
    read_seconds: float = 32.0
    """From the connection, or the first byte of a further request, to the end of the request."""
    idle_seconds: float = 90.0
    """Between two requests."""
    write_seconds: float = 30.0
    """Until the client has taken an answer."""
    waiting_requests: int = 16
    """Requests sent before the first was answered, after which no more are read."""


class _Received(NamedTuple):
    """A request, or the answer to what is none, and whether the connection ends with it."""

    request: ServerRequest | None
    refusal: ServerResponse | None
    close: bool


class HTTPConnection(asyncio.Protocol):
    """Requests in their order, each answered by ``answer``, which does not raise.

    ``may_persist`` returns whether the connection may go on after an answer. ``lost`` is called at the end.
    """

    def __init__(
        self,
        answer: Callable[[ServerRequest], Awaitable[ServerResponse]],
        limits: HTTPLimits,
        *,
        may_persist: Callable[[asyncio.BaseTransport], bool],
        made: Callable[[HTTPConnection], None],
        lost: Callable[[HTTPConnection], None],
    ) -> None:
        self.transport: asyncio.Transport | None = None
        self.task: asyncio.Task[None] | None = None
        """Answers what was received; None while the connection is idle."""
        self._loop = asyncio.get_running_loop()
        self._answer = answer
        self._limits = limits
        self._may_persist = may_persist
        self._made = made
        self._lost = lost
        self._parser: HttpRequestParser | None = HttpRequestParser(self)
        self._received: deque[_Received] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._flushed: asyncio.Future[None] | None = None
        self._ending = False
        """Whether nothing is read any more."""
        self._paused = False
        self._expect_request()

    def _expect_request(self) -> None:
        self._url = b""
        self._headers: dict[str, str] = {}
        self._bytes = 0
        self._head_bytes = 0
        self._head_complete = False

    def close(self) -> None:
        """End the connection after what was received completely: at once if that is nothing."""
        self._ending = True
        if self.task is None:
            self._end()

    # -- what asyncio calls ----------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        # So that pause_writing() means: not sent yet. With 0, TLS of asyncio pauses for an empty buffer, every second time.
        self.transport.set_write_buffer_limits(high=1, low=0)
        self._start_timer(self._limits.read_seconds)
        self._made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._parser = None  # it refers to this object
        self._ending = True
        self._stop_timer()
        self.resume_writing()
        if self.task is not None:
            self.task.cancel()
        self._lost(self)

    def pause_writing(self) -> None:
        self._flushed = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._flushed is not None and not self._flushed.done():
            self._flushed.set_result(None)
        self._flushed = None

    def data_received(self, data: bytes) -> None:
        if self._ending or self._parser is None:
            return
        if not self._bytes and self.task is None:
            self._start_timer(self._limits.read_seconds)
        self._bytes += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade:
            self._ending = (
                True  # the request is answered in HTTP/1.1, and what follows is something else
            )
        except (HttpParserError, ValueError):
            self._refuse(400)
        if self._bytes > self._limits.request_bytes:
            self._refuse(413 if self._head_complete else 431)

    # -- what the parser calls -------------------------------------------------------------

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._head_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._head_bytes += len(name) + len(value)
        if not self._head_complete:  # trailers are ignored
            self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._head_complete = True
        expected = self._headers.get("expect", "").lower() == "100-continue"
        if expected and self.task is None and self.transport is not None:
            self.transport.write(_CONTINUE)

    def on_message_complete(self) -> None:
        parser = self._parser
        if self._ending or parser is None:
            return
        if self._head_bytes > self._limits.request_bytes:
            self._refuse(431)
            return
        method = parser.get_method().decode("ascii")
        close = not parser.should_keep_alive() or parser.get_http_version() != "1.1"
        url = parse_url(self._url) if method != "CONNECT" else None
        path = (url.path or b"/") if url is not None else b"*"
        query = url.query if url is not None else None
        request = ServerRequest.parse(method, path, query, self._headers)
        self._expect_request()
        self._enqueue(_Received(request, None, close))

    # -- answers ---------------------------------------------------------------------------

    def _refuse(self, status: int) -> None:
        if not self._ending:
            self._enqueue(_Received(None, ServerResponse.of_status(status), close=True))

    def _enqueue(self, received: _Received) -> None:
        self._ending = self._ending or received.close
        self._received.append(received)
        if len(self._received) >= self._limits.waiting_requests:
            self._pause_reading()
        if self.task is None:
            self._stop_timer()
            self.task = self._loop.create_task(self._serve(), name="HTTP connection")

    async def _serve(self) -> None:
        try:
            while self._received and self.transport is not None:
                received = self._received.popleft()
                if not await self._send(received):
                    self._end()
                    return
        finally:
            self.task = None
        if self._ending:
            self._end()
        else:
            self._resume_reading()
            self._start_timer(
                self._limits.read_seconds if self._bytes else self._limits.idle_seconds
            )

    async def _send(self, received: _Received) -> bool:
        """Return whether the connection goes on."""
        request, response = received.request, received.refusal
        if response is None:
            assert request is not None  # noqa: S101 - there is one of the two
            response = await self._answer(request)
        if self.transport is None:
            return False
        last = self._ending and not self._received
        close = received.close or last or not self._may_persist(self.transport)
        head_only = request is not None and request.method == "HEAD"
        self.transport.write(response.encode(close=close, without_body=head_only))
        return await self._wait_flushed() and not close

    async def _wait_flushed(self) -> bool:
        """Return whether the client took the answer; it is cut off where it did not in time."""
        if self._flushed is None:
            return True
        try:
            async with asyncio.timeout(self._limits.write_seconds):
                await self._flushed
        except TimeoutError:
            if self.transport is not None:
                self.transport.abort()
            return False
        return True

    def _end(self) -> None:
        self._ending = True
        if self.transport is not None and not self.transport.is_closing():
            self.transport.close()
            self._start_timer(self._limits.write_seconds)  # for the peer to take the end as well

    # -- time and back-pressure ------------------------------------------------------------

    def _start_timer(self, seconds: float) -> None:
        self._stop_timer()
        self._timer = self._loop.call_later(seconds, self._expire)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        if self.transport is not None and self.transport.is_closing():
            self.transport.abort()
        elif self._bytes and not self._ending:
            self._refuse(408)
        else:
            self._end()

    def _pause_reading(self) -> None:
        if not self._paused and self.transport is not None:
            self._paused = True
            self.transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._paused and self.transport is not None:
            self._paused = False
            self.transport.resume_reading()
