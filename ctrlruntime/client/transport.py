"""HTTP to an API server: bodies as bytes, a time limit on every call, typed errors.

Three shapes of call are all a controller needs: a request, a list in pages, a watch line by line.
"""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
import msgspec
import structlog
from multidict import CIMultiDictProxy
from yarl import URL

from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import TransportError, WriteOutcomeUnknown, error_of_response
from ctrlruntime.client.fence import READS, Fence, fenced
from ctrlruntime.client.lines import LineSplitter
from ctrlruntime.client.observe import NoObserver, RequestObserver
from ctrlruntime.client.sending import Request, Sending
from ctrlruntime.client.warnings import warnings_of

Params = Mapping[str, str]
_KEEPALIVE_SECONDS = 30.0
_RETIREMENT_SECONDS = 60.0
_NO_ANSWER = "<error>"
JSON = "application/json"


@dataclass(frozen=True, slots=True)
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


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str | None = msgspec.field(default=None, name="continue")


class _ListHead(msgspec.Struct):
    metadata: _ListMeta


_list_head = msgspec.json.Decoder(_ListHead)


class Transport:
    """One API server. Close it when done; it may be used as an async context manager.

    ``fence`` is asked about every write in the turn of the loop in which it is sent, repeated ones
    included; what it raises reaches the caller of the write, of which nothing was sent.
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
    ) -> None:
        self.config = config
        self.options = options or TransportOptions()
        self._observer: RequestObserver = observer or NoObserver()
        self._sleep = sleep
        self._request_class = Request if fence is None else fenced(fence)
        self._log = structlog.get_logger("ctrlruntime.client")
        self._on_warning = on_warning or self._log_warning
        base = URL(config.host)
        self._base = str(base).rstrip("/")
        self._host = base.authority
        self._slots = asyncio.Semaphore(self.options.max_requests)
        self._session: aiohttp.ClientSession | None = None
        self._retiring: dict[asyncio.Task[None], aiohttp.ClientSession] = {}
        self._generation: tuple[int, int] = (-1, -1)
        self._closed = False

    async def __aenter__(self) -> "Transport":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        self._closed = True
        for task, session in list(self._retiring.items()):
            task.cancel()
            await session.close()
        if self._session is not None:
            await self._session.close()
            self._session = None
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

        429, and 5xx with Retry-After, are repeated as the server asks; a 401 once with renewed
        credentials. ``timeout`` bounds each attempt from when it is sent; a connection that it needs
        has limits of its own, see TransportOptions. Raises APIError for any other answer of 400 or
        more, TransportError where none came, and WriteOutcomeUnknown where a write may have been
        carried out all the same.
        """
        url = self._url(path, params)
        attempt = 0
        renewed = False
        while True:
            sending = await self._headers(headers, body, content_type, renew=renewed)
            status, answered, answer = await self._connected(method, url, sending, body, timeout)
            self._warn(answered)
            if status < HTTPStatus.BAD_REQUEST:
                return Response(status, answered, answer)
            if status == HTTPStatus.UNAUTHORIZED and not renewed and self.config.auth.renewable:
                renewed = True
                continue
            retry_after = _retry_after(answered)
            if attempt >= self.options.retries or not _is_retried(status, retry_after):
                raise error_of_response(status, answer, retry_after=retry_after)
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
        """The pages of one list, as bodies. Raises Expired when the server no longer knows the list."""
        query = dict(params or {})
        if limit:
            query["limit"] = str(limit)
        while True:
            response = await self.request(
                "GET", path, params=query, headers=headers, timeout=timeout
            )
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
        """The lines of a watch, until the server ends it.

        Raises APIError if the watch is refused, and TransportError if the connection breaks or
        stays silent for ``inactivity`` seconds. ``timeout`` bounds the whole watch.
        """
        url = self._url(path, params)
        limits = aiohttp.ClientTimeout(
            total=timeout, connect=self.options.connect_timeout, sock_read=inactivity
        )
        sending = await self._headers(headers, None, JSON, renew=False)
        started = time.perf_counter()
        received = 0
        code = _NO_ANSWER
        try:
            session = await self._open()
            async with session.get(
                url, headers=sending, timeout=limits, **self._connection_options()
            ) as response:
                code = str(response.status)
                self._warn(response.headers)
                if response.status >= HTTPStatus.BAD_REQUEST:
                    raise await self._refused(response)
                splitter = LineSplitter()
                try:
                    async for chunk in response.content.iter_any():
                        received += len(chunk)
                        for line in splitter.feed(chunk):
                            yield line
                    if rest := splitter.rest:
                        yield rest
                finally:
                    _hang_up(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise TransportError(f"watch of {path}: {_words(error)}") from error
        finally:
            self._observer.requested(
                "GET", self._host, code, time.perf_counter() - started, 0, received
            )

    # -- one attempt -----------------------------------------------------------------------

    async def _connected(
        self, method: str, url: URL, headers: Mapping[str, str], body: bytes | None, timeout: float
    ) -> tuple[int, Mapping[str, str], bytes]:
        """An attempt that is made anew while there is no connection for it in time."""
        for _ in range(self.options.connect_attempts - 1):
            try:
                return await self._attempt(method, url, headers, body, timeout)
            except _NoConnection:
                self._observer.retried(method, self._host, _NO_ANSWER)
        return await self._attempt(method, url, headers, body, timeout)

    async def _attempt(
        self, method: str, url: URL, headers: Mapping[str, str], body: bytes | None, timeout: float
    ) -> tuple[int, Mapping[str, str], bytes]:
        async with self._slots:
            started = time.perf_counter()
            code, received = _NO_ANSWER, 0
            sending = Sending(timeout)
            try:
                session = await self._open()
                async with (
                    sending,
                    session.request(
                        method,
                        url,
                        data=body,
                        headers=headers,
                        timeout=aiohttp.ClientTimeout(connect=self.options.connect_timeout),
                        **self._connection_options(),
                    ) as response,
                ):
                    answer = await response.read()
                    code, received = str(response.status), len(answer)
                    return response.status, response.headers, answer
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise _no_answer(method, url, error, sent=sending.begun) from error
            finally:
                seconds = time.perf_counter() - started
                self._observer.requested(
                    method, self._host, code, seconds, len(body or b""), received
                )

    async def _refused(self, response: aiohttp.ClientResponse) -> Exception:
        if response.status == HTTPStatus.UNAUTHORIZED and self.config.auth.renewable:
            await self.config.auth.headers(renew=True)  # the caller backs off and watches again
        return error_of_response(
            response.status, await response.read(), retry_after=_retry_after(response.headers)
        )

    async def _headers(
        self,
        headers: Mapping[str, str] | None,
        body: bytes | None,
        content_type: str,
        *,
        renew: bool,
    ) -> dict[str, str]:
        sending = {"Accept": JSON, "User-Agent": self.config.user_agent}
        if not self.options.compression:
            sending["Accept-Encoding"] = "identity"
        if body is not None:
            sending["Content-Type"] = content_type
        sending.update(self.config.extra_headers)
        sending.update(await self.config.auth.headers(renew=renew))
        if headers:
            sending.update(headers)
        return sending

    def _url(self, path: str, params: Params | None) -> URL:
        query = f"?{urlencode(params, quote_via=quote)}" if params else ""
        return URL(f"{self._base}{path}{query}", encoded=True)

    async def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise TransportError("the transport is closed", sent=False)
        generation = self.config.generation
        if self._session is None or self._generation != generation:
            previous, self._session = self._session, self._new_session()
            self._generation = generation
            if previous is not None:
                # Requests under way on the old certificate end by themselves; watches come back.
                self._retire(previous)
        return self._session

    def _retire(self, session: aiohttp.ClientSession) -> None:
        async def close() -> None:
            await asyncio.sleep(_RETIREMENT_SECONDS)
            await session.close()

        task = asyncio.get_running_loop().create_task(close())
        self._retiring[task] = session
        task.add_done_callback(lambda done: self._retiring.pop(done, None))

    def _new_session(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(
            limit=0,  # the semaphore limits requests; a watch must never wait for one
            ssl=self.config.ssl_context() or True,
            keepalive_timeout=_KEEPALIVE_SECONDS,
            socket_factory=_keepalive_socket,
        )
        session = aiohttp.ClientSession(
            connector=connector,
            request_class=self._request_class,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=True,
            read_bufsize=2**18,
        )
        # aiohttp would silently send a PUT or DELETE again when a kept connection breaks; whether a
        # write is repeated is for the caller to say.
        session._retry_connection = False
        return session

    def _connection_options(self) -> dict[str, Any]:
        options: dict[str, Any] = {}
        if self.config.tls_server_name:
            options["server_hostname"] = self.config.tls_server_name
        if self.config.proxy_url:
            options["proxy"] = self.config.proxy_url
        return options

    def _warn(self, headers: Mapping[str, str]) -> None:
        if "Warning" in headers and isinstance(headers, CIMultiDictProxy):
            for text in warnings_of(headers.getall("Warning")):
                self._on_warning(text)

    def _log_warning(self, text: str) -> None:
        self._log.warning("API server warning", warning=text)


def _hang_up(response: aiohttp.ClientResponse) -> None:
    """Ends at once a stream that was not read to its end: a farewell by TLS waits for the peer."""
    connection = response.connection
    if connection is not None and connection.transport is not None:
        connection.transport.abort()


def list_meta(body: bytes) -> _ListMeta:
    """The metadata of a list without decoding its items."""
    return _list_head.decode(body).metadata


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


class _NoConnection(TransportError):
    """It was not made in time."""


def _no_answer(method: str, url: URL, error: Exception, *, sent: bool) -> TransportError:
    message = f"{method} {url.path}: {_words(error)}"
    if sent and method not in READS:
        return WriteOutcomeUnknown(message)
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return _NoConnection(message, sent=False)
    return TransportError(message, sent=sent)


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return "no answer in time"
    return str(error) or type(error).__name__


def _keepalive_socket(info: Any) -> socket.socket:
    """A socket that finds out about a vanished peer within a minute."""
    family, kind, protocol, *_ = info
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
        if hasattr(socket, option):
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    return sock
