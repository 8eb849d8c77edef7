"""HTTP to an API server: bodies as bytes, a time limit on every call, typed errors.

Three shapes of call are all a controller needs: a request, a list in pages, a watch line by line.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec
import structlog
from structlog.typing import FilteringBoundLogger

from ctrlruntime.client.answer_limits import FOREIGN, OWN, AnswerLimits, AnswerTooLarge, PageLimit
from ctrlruntime.client.config import Config
from ctrlruntime.client.connection_pool import ConnectionPool
from ctrlruntime.client.dial import ConnectFailed, ConnectTimeout, Dialer, Endpoint
from ctrlruntime.client.errors import TransportError, WriteOutcomeUnknown, error_of_response
from ctrlruntime.client.fence import READS, Fence
from ctrlruntime.client.http1 import (
    Answer,
    BrokenConnection,
    Connection,
    Inflater,
    inflater,
    is_redirect,
)
from ctrlruntime.client.line_splitter import LineSplitter
from ctrlruntime.client.metrics import NoObserver, RequestObserver
from ctrlruntime.client.request_head import RequestHead
from ctrlruntime.client.request_slots import RequestSlots
from ctrlruntime.client.response_headers import ResponseHeaders
from ctrlruntime.clock import perf
from ctrlruntime.fast_dataclass import fast_dataclass
from ctrlruntime.intake.limits import Malformed
from ctrlruntime.intake.shallow import first_member

Params = Mapping[str, str]
_RETIREMENT_SECONDS = 60.0
_NO_ANSWER = "<error>"
_REFUSED: Final = int(HTTPStatus.BAD_REQUEST)  # members of an enum are computed at each access
_UNAUTHORIZED: Final = int(HTTPStatus.UNAUTHORIZED)
_REDIRECTED: Final = int(HTTPStatus.MULTIPLE_CHOICES)
_WARNING: Final = re.compile(r'\s*299\s+\S+\s+"((?:[^"\\]|\\.)*)"')
JSON = "application/json"


@fast_dataclass(frozen=True, slots=True)
class Response:
    """A successful answer."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportOptions:
    """Limits of a transport. Times in seconds."""

    max_requests: int = 100
    """Requests under way at once; watches are not counted."""
    retries: int = 10
    """How often a 429, or a 5xx with Retry-After, is repeated (client-go: 10)."""
    max_retry_after: float = 60.0
    """A longer Retry-After is cut to this."""
    connect_timeout: float = 30.0
    """For a new connection, TLS included (client-go: 30); comes before a call's own ``timeout``."""
    connect_attempts: int = 2
    """How often a connection not made in time is tried. Nothing was sent by then, not even a write."""
    compression: bool = False
    """Ask for gzip. Worth it across a WAN; on a fast network it only costs processor time."""
    limits: AnswerLimits | None = None
    """How much of the server's answers is kept. By default OWN (512 MiB an answer), and FOREIGN (16 MiB, 64 MiB
    of all such servers at once) for a server that a kubeconfig from a Secret names."""


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")


class _ListHead(msgspec.Struct):
    metadata: _ListMeta


_list_head = msgspec.json.Decoder(_ListHead)


class Transport:
    """One API server. Close it when done; it may be used as an async context manager.

    ``fence`` is asked about every write in the turn of the loop in which it is sent, repeated ones
    included; what it raises reaches the caller of the write, of which nothing was sent. ``delay`` returns
    the seconds that an attempt of a request waits before it is sent; watches do not.
    """

    def __init__(
        self,
        config: Config,
        options: TransportOptions | None = None,
        *,
        observer: RequestObserver | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        on_warning: Callable[[str], None] | None = None,
        fence: Fence | None = None,
        delay: Callable[[], float] | None = None,
        logger: FilteringBoundLogger | None = None,
    ) -> None:
        self.config = config
        self._delay = delay
        self.options = options or TransportOptions()
        self.limits: AnswerLimits = self.options.limits or (FOREIGN if config.foreign else OWN)
        self._observer: RequestObserver = observer or NoObserver()
        self._sleep = sleep
        self._fence = fence
        self._log: FilteringBoundLogger = (
            logger if logger is not None else structlog.get_logger("ctrlruntime.client")
        )
        self._on_warning = on_warning or self._log_warning
        base = urlsplit(config.host)
        self._host = base.netloc.rpartition("@")[2]
        self._prefix = base.path.rstrip("/")
        self._head: RequestHead | None = None
        self._slots = RequestSlots(self.options.max_requests)
        self._pool: ConnectionPool | None = None
        self._retiring: list[ConnectionPool] = []
        self._generation: tuple[int, int] = (-1, -1)
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self.sent = 0
        """Attempts of requests so far; watches are not counted."""

    async def __aenter__(self) -> "Transport":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def under_way(self) -> int:
        """Requests without an answer so far; watches are not counted."""
        return self._slots.taken

    async def close(self) -> None:
        self._closed = True
        for pool in (*self._retiring, self._pool):
            if pool is not None:
                pool.close()
        self._retiring.clear()
        self._pool = None
        await asyncio.sleep(0)  # aborted connections close their sockets in the next turn

    # -- the three shapes of call ----------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        timeout: float = 30.0,
    ) -> Response:
        """One request with its answer.

        429, and 5xx with Retry-After, are repeated when the server allows; a 401 once with renewed
        credentials. ``timeout`` bounds each attempt from when it is sent; a connection that it needs
        has limits of its own, see TransportOptions. Raises APIError for any other answer of 400 or
        more, TransportError where none came, and WriteOutcomeUnknown where a write may have been
        carried out all the same.
        """
        target = self._target(path, params)
        attempt = unconnected = 0
        refused: Mapping[str, str] | None = None
        while True:
            if self._delay is not None and (seconds := self._delay()) > 0:
                await self._sleep(seconds)
            auth = await self.config.auth.headers(refused=refused)
            data = self._request_head(auth).encode(method, target, headers, body, content_type)
            size = 0 if body is None else len(body)
            try:
                status, answered, answer = await self._attempt(method, path, data, size, timeout)
            except _NoConnection:
                unconnected += 1
                if unconnected >= self.options.connect_attempts:
                    raise
                self._observer.retried(method, self._host, _NO_ANSWER)
                continue
            unconnected = 0
            if answered.special:
                self._warn(answered)
            if status < _REFUSED:
                if status >= _REDIRECTED and is_redirect(status):
                    raise _redirected(method, path, answered, foreign=self.config.foreign)
                return Response(status, answered, answer)
            unauthorized = status == _UNAUTHORIZED
            if unauthorized and refused is None and self.config.auth.renewable:
                refused = auth
                continue
            retry_after = _retry_after(answered)
            if attempt >= self.options.retries or not _is_retried(status, retry_after):
                foreign = self.config.foreign
                raise error_of_response(status, answer, retry_after=retry_after, foreign=foreign)
            attempt += 1
            self._observer.retried(method, self._host, str(status))
            await self._sleep(min(retry_after or 1.0, self.options.max_retry_after))

    async def list_pages(
        self,
        path: str,
        params: Params | None = None,
        *,
        limit: int = 500,
        headers: Mapping[str, str] | None = None,
        timeout: float = 60.0,
    ) -> AsyncGenerator[bytes, None]:
        """Yield the pages of one list, as bodies. Raises Expired when the server no longer has the list."""
        query = dict(params or {})
        size = PageLimit(self.limits, limit)
        while True:
            if size.limit:
                query["limit"] = str(size.limit)
            try:
                response = await self.request(
                    "GET", path, params=query, headers=headers, timeout=timeout
                )
            except AnswerTooLarge:
                if not size.shrink():
                    raise
                continue
            size.count(response.body)
            yield response.body
            token = list_meta(response.body).continue_
            if not token:
                return
            query["continue"] = token
            # A continue token carries the version; naming one as well is refused.
            query.pop("resourceVersion", None)
            query.pop("resourceVersionMatch", None)

    async def watch_lines(
        self,
        path: str,
        params: Params,
        *,
        inactivity: float,
        timeout: float | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """Yield the lines of a watch, until the server ends it.

        Raises APIError if the watch is refused, and TransportError if the connection breaks or
        stays silent for ``inactivity`` seconds. ``timeout`` bounds the whole watch.
        """
        auth = await self.config.auth.headers()
        head = self._request_head(auth)
        data = head.encode("GET", self._target(path, params), headers, None, JSON)
        started = perf()
        received = 0
        code = _NO_ANSWER
        line_size = self.limits.line_size(self)
        pool = self._open()
        try:
            connection = pool.take() or await pool.dial()
            ending = None if timeout is None else connection.end_in(timeout)
            try:
                answer = await connection.request(data, timeout=inactivity, streamed=True)
                code = str(answer.status)
                self._warn(answer.headers)
                async with aclosing(_body(connection, answer, inactivity)) as chunks:
                    if answer.status >= HTTPStatus.MULTIPLE_CHOICES:
                        raise await self._refused(path, answer, chunks, auth)
                    splitter = LineSplitter(line_size)
                    async for chunk in chunks:
                        received += len(chunk)
                        for line in splitter.feed(chunk):
                            yield line
                    if rest := splitter.rest:
                        yield rest
            finally:
                if ending is not None:
                    ending.cancel()
                pool.release(connection)
        except AnswerTooLarge as error:
            raise AnswerTooLarge(f"watch of {path}: {error}") from error
        except (BrokenConnection, ConnectFailed, TimeoutError) as error:
            raise TransportError(f"watch of {path}: {_words(error)}") from error
        finally:
            line_size.close()
            self._observer.requested("GET", self._host, code, perf() - started, 0, received)

    # -- one attempt -----------------------------------------------------------------------

    async def _attempt(
        self, method: str, path: str, data: bytes, size: int, timeout: float
    ) -> Answer:
        self.sent += 1
        if not self._slots.take():
            await self._slots.wait()
        started = perf()
        code, received = _NO_ANSWER, 0
        try:
            try:
                answer = await self._exchanged(method, path, data, timeout)
            except _ClosedWhileKept:
                self._observer.retried(method, self._host, _NO_ANSWER)
                answer = await self._exchanged(method, path, data, timeout, new=True)
            code, received = str(answer.status), len(answer.body)
            return answer
        finally:
            self._slots.release()
            seconds = perf() - started
            self._observer.requested(method, self._host, code, seconds, size, received)

    async def _exchanged(
        self, method: str, path: str, data: bytes, timeout: float, *, new: bool = False
    ) -> Answer:
        """Send it on a connection that was kept, or on a new one."""
        pool = self._open()
        kept = None if new else pool.take()
        connection = kept or await self._dialed(pool, method, path)
        size = self.limits.answer_size(self)
        try:
            if self._fence is not None and method not in READS:
                self._fence()  # the bytes leave in this turn of the loop
            try:
                answer = await connection.request(
                    data, timeout=timeout, without_body=method == "HEAD", size=size
                )
                if not answer.headers.special or (compressed := inflater(answer.headers)) is None:
                    return answer
                return answer._replace(body=await compressed.whole(answer.body, size))
            except AnswerTooLarge as error:
                message = f"{method} {path}: {error}"
                kind = AnswerTooLarge if method in READS else WriteOutcomeUnknown
                raise kind(message) from error
            except (BrokenConnection, TimeoutError) as error:
                closed = isinstance(error, BrokenConnection) and connection.silent
                raise _unanswered(
                    method, path, error, closed=closed and kept is not None
                ) from error
        finally:
            size.close()
            pool.release(connection)

    async def _dialed(self, pool: ConnectionPool, method: str, path: str) -> Connection:
        try:
            return await pool.dial()
        except ConnectTimeout as error:
            raise _NoConnection(f"{method} {path}: {error}", sent=False) from error
        except ConnectFailed as error:
            raise TransportError(f"{method} {path}: {error}", sent=False) from error

    async def _refused(
        self,
        path: str,
        answer: Answer,
        chunks: AsyncGenerator[bytes, None],
        auth: Mapping[str, str],
    ) -> Exception:
        if is_redirect(answer.status):
            return _redirected("GET", path, answer.headers, foreign=self.config.foreign)
        if answer.status == HTTPStatus.UNAUTHORIZED and self.config.auth.renewable:
            await self.config.auth.headers(refused=auth)  # the caller backs off and watches again
        body = await self._read(chunks)
        retry_after, foreign = _retry_after(answer.headers), self.config.foreign
        return error_of_response(answer.status, body, retry_after=retry_after, foreign=foreign)

    async def _read(self, chunks: AsyncGenerator[bytes, None]) -> bytes:
        """Return a streamed body as a whole. Raises AnswerTooLarge."""
        size = self.limits.answer_size(self)
        found = []
        try:
            async for chunk in chunks:
                size.add(len(chunk))
                found.append(chunk)
        finally:
            size.close()
        return b"".join(found)

    def _target(self, path: str, params: Params | None) -> str:
        query = _query(tuple(params.items())) if params else ""
        return f"{self._prefix}{path}{query}"

    def _request_head(self, auth: Mapping[str, str]) -> RequestHead:
        """Return the fields that all requests share; rebuilt only when the credentials change."""
        head = self._head
        if head is None or head.auth != auth:
            head = self._head = RequestHead.of(
                self.config, auth, compression=self.options.compression
            )
        return head

    def _open(self) -> ConnectionPool:
        if self._closed:
            raise TransportError("the transport is closed", sent=False)
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._move_to(loop)
        generation = self.config.generation
        if self._pool is None or self._generation != generation:
            previous, self._pool = self._pool, self._new_pool()
            self._generation = generation
            if previous is not None:
                # Requests under way on the old certificate end by themselves; watches come back.
                previous.retire(_RETIREMENT_SECONDS)
                self._retiring = [pool for pool in self._retiring if not pool.closed]
                self._retiring.append(previous)
        return self._pool

    def _move_to(self, loop: asyncio.AbstractEventLoop) -> None:
        """Use connections of a loop that runs. Raises RuntimeError where those of another one are in use."""
        if self._loop is not None and not self._loop.is_closed():
            raise RuntimeError(
                "this client was made on another event loop, which still runs its connections: make one on this "
                "loop, in a test by the fixture `envtest_client` or "
                "`async with Client.connect(environment.config()) as client:`"
            )
        self._loop, self._pool = loop, None

    def _new_pool(self) -> ConnectionPool:
        config = self.config
        return ConnectionPool(
            Dialer(
                server=Endpoint.parse(config.host),
                tls=config.ssl_context(),
                server_name=config.tls_server_name,
                proxy=Endpoint.parse(config.proxy_url) if config.proxy_url else None,
                checked=config.foreign,
                timeout=self.options.connect_timeout,
            )
        )

    def _warn(self, headers: ResponseHeaders) -> None:
        if values := headers.get_all("Warning"):
            for text in warnings_of(values):
                try:
                    self._on_warning(text)
                except Exception as error:  # noqa: BLE001 - the user's function; the request is answered
                    self._observer.warning_lost()
                    self._log.error(
                        "A warning handler failed; the warning is lost to it",
                        warning=text,
                        exc_info=error,
                    )

    def _log_warning(self, text: str) -> None:
        self._log.warning("API server warning", warning=text)


def _unanswered(method: str, path: str, error: Exception, *, closed: bool) -> TransportError:
    """Return what to raise for a request without an answer. ``closed``: by the server, on a kept connection."""
    message = f"{method} {path}: {_words(error)}"
    if method not in READS:
        return WriteOutcomeUnknown(message)
    return _ClosedWhileKept(message) if closed else TransportError(message)


@lru_cache(maxsize=256)
def _query(params: tuple[tuple[str, str], ...]) -> str:
    """Return the query of a request. Those of writes are few, and the same again and again."""
    return f"?{urlencode(params, quote_via=quote)}"


def _body(connection: Connection, answer: Answer, inactivity: float) -> AsyncGenerator[bytes, None]:
    """Return the chunks of a streamed answer, decompressed."""
    chunks = connection.chunks(inactivity)
    compressed = inflater(answer.headers)
    return chunks if compressed is None else _inflated(chunks, compressed)


async def _inflated(
    compressed: AsyncGenerator[bytes, None], stream: Inflater
) -> AsyncGenerator[bytes, None]:
    async with aclosing(compressed) as chunks:
        async for chunk in chunks:
            for piece in stream.pieces(chunk):
                yield piece
                await asyncio.sleep(0)


def list_meta(body: bytes) -> _ListMeta:
    """Return the metadata of a list without decoding its items."""
    try:
        return _list_head.decode(body).metadata
    except (RecursionError, msgspec.DecodeError):  # of an item, as one nested too deep
        try:
            return msgspec.json.decode(first_member(body, "metadata", b"{}"), type=_ListMeta)
        except Malformed as error:
            raise msgspec.DecodeError(str(error)) from None


def _is_retried(status: int, retry_after: float | None) -> bool:
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return True
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR and retry_after is not None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds; the date form is not used by API servers."""
    try:
        return max(0.0, float(headers["Retry-After"]))
    except (KeyError, ValueError):
        return None


class _ClosedWhileKept(TransportError):
    """The server closed an idle connection while a read was on its way to it: no answer began."""


class _NoConnection(TransportError):
    """It was not made in time."""


def _redirected(
    method: str, path: str, headers: Mapping[str, str], *, foreign: bool
) -> TransportError:
    """Refuse a redirect: an API server redirects no API request; what stands before it may, and credentials do not follow."""
    where = "elsewhere" if foreign else f"to {headers.get('Location', 'nowhere')}"
    return TransportError(
        f"{method} {path}: redirected {where}; let the configuration name that server"
    )


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    return str(error) or type(error).__name__


def warnings_of(headers: Iterable[str]) -> list[str]:
    """Return the texts of all ``Warning`` headers (RFC 7234), in order; anything that is not a 299 is ignored."""
    texts = []
    for header in headers:
        position = 0
        while match := _WARNING.match(header, position):
            texts.append(re.sub(r"\\(.)", r"\1", match[1]))
            position = match.end()
            if header[position : position + 1] != ",":
                break
            position += 1
    return texts
