"""The server itself: sockets, dispatch, and the controllers that run beside it."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from hashlib import sha256
from typing import Any, Final

import orjson
import structlog
from aiohttp import web

from ctrlruntime.clock import random_hex
from ctrlruntime.envtest.server.admission import Admission
from ctrlruntime.envtest.server.bootstrap import bootstrap
from ctrlruntime.envtest.server.certificates import Authority
from ctrlruntime.envtest.server.dispatch import Dispatcher, Reply
from ctrlruntime.envtest.server.errors import PageNotFound, StatusError, internal, too_large
from ctrlruntime.envtest.server.gc import GarbageCollector
from ctrlruntime.envtest.server.namespaces import NamespaceController
from ctrlruntime.envtest.server.options import ServerOptions
from ctrlruntime.envtest.server.request import Request, parse_request
from ctrlruntime.envtest.server.snapshot import Snapshot
from ctrlruntime.envtest.server.state import State
from ctrlruntime.envtest.server.watch import Watch
from ctrlruntime.graceful_server import hanging_up, stop_listening
from ctrlruntime.intake.json_documents import is_deeper

KEPT: Final = 100
"""Levels that the server sees."""
READ: Final = 200
"""Levels of a request from which on what is below `KEPT` is set aside."""
MOST: Final = 10_000
"""Levels that the real server's decoder reads."""
_TOKEN: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]', re.DOTALL)

_LOG: Final = structlog.get_logger(__name__)
_JSON: Final = "application/json"
_SHUTDOWN: Final = 1.0
"""Seconds for requests in progress when it stops."""


class APIServer:
    """An API server in this process, on the running loop. State is in memory and goes with it."""

    def __init__(self, options: ServerOptions | None = None) -> None:
        self.options = options or ServerOptions()
        self.state = State(self.options)
        self._deep = DeepParts()
        self._admission = Admission(self.state)
        self._dispatcher = Dispatcher(self.state, self._admission)
        self._web: web.Server | None = None
        self._listener: asyncio.Server | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._streams: set[asyncio.Task[Any]] = set()
        self._authority = Authority() if self.options.tls else None
        self.port = 0

    @property
    def url(self) -> str:
        scheme = "https" if self._authority else "http"
        return f"{scheme}://{self.options.host}:{self.port}"

    @property
    def ca_data(self) -> bytes | None:
        """The CA certificate (PEM) that signs the server's own; None without TLS."""
        return None if self._authority is None else self._authority.ca_data

    def snapshot(self) -> Snapshot:
        """Return what it holds now, for `ServerOptions.snapshot` of other servers."""
        return self.state.snapshot()

    async def start(self) -> None:
        """Listen. Raises OSError where the port is taken."""
        bootstrap(self.state)
        context = None
        if self._authority is not None:
            context = self._authority.server_context([self.options.host, "localhost"])
        await self._listen(context)
        self._tasks.append(asyncio.create_task(NamespaceController(self.state).run()))
        if self.options.garbage_collection:
            self._tasks.append(asyncio.create_task(GarbageCollector(self.state).run()))

    async def _listen(self, context: ssl.SSLContext | None) -> None:
        self._web = web.Server(self._handle, access_log=None)
        self._listener = await asyncio.get_running_loop().create_server(
            self._web,
            self.options.host,
            self.options.port,
            ssl=context,
            backlog=1024,
            reuse_address=True,
        )
        self.port = self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening, end all watches and background work."""
        for task in (*self._tasks, *self._streams):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._streams, return_exceptions=True)
        self._tasks.clear()
        if self._listener is not None and self._web is not None:
            await stop_listening(self._listener)
            async with hanging_up(self._web):
                self._web.pre_shutdown()
                await self._web.shutdown(_SHUTDOWN)
            self._listener = self._web = None
        await self._admission.close()

    async def __aenter__(self) -> APIServer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _handle(self, raw: web.BaseRequest) -> web.StreamResponse:
        request = self._parsed(raw)
        try:
            await self._read_body(raw, request)
            reply = await self._dispatcher.handle(request)
        except StatusError as error:
            return _error(request, error)
        except Exception as error:  # noqa: BLE001 - the server must answer
            _LOG.exception("request_failed", path=request.path, method=request.method)
            return _error(request, internal(f"{type(error).__name__}: {error}"))
        if isinstance(reply, Watch):
            return await self._stream(raw, request, reply)
        response = _response(request, reply)
        if isinstance(response.body, bytes):
            response.body = self._deep.put_back(response.body)
        return response

    def _parsed(self, raw: web.BaseRequest) -> Request:
        return parse_request(raw.method, raw.path_qs, raw.headers)

    async def _read_body(self, raw: web.BaseRequest, request: Request) -> None:
        if not raw.can_read_body:
            return
        limit = self.options.max_request
        if (raw.content_length or 0) > limit:
            raise too_large(f"Request entity too large: limit is {limit}")
        parts: list[bytes] = []
        size = 0
        async for part in raw.content.iter_any():
            parts.append(part)
            size += len(part)
            if size > limit:
                raise too_large(f"Request entity too large: limit is {limit}")
        request.body = self._deep.set_aside(b"".join(parts))

    async def _stream(
        self, raw: web.BaseRequest, request: Request, watch: Watch
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={"Content-Type": _JSON, "Cache-Control": "no-cache, private"}
        )
        response.enable_chunked_encoding()
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - handlers run in tasks
        self._streams.add(task)
        try:
            await response.prepare(raw)
            async with contextlib.aclosing(watch.lines()) as lines:
                async for chunk in lines:
                    await response.write(self._deep.put_back(chunk))
            await response.write_eof()
        except (ConnectionError, asyncio.CancelledError):
            if raw.transport is not None:
                raw.transport.close()
            if task.cancelling():
                raise
        finally:
            self._streams.discard(task)
        return response


def _response(request: Request, reply: Reply) -> web.Response:
    body = reply.body
    if request.pretty and reply.content_type == _JSON:
        body = orjson.dumps(orjson.loads(body), option=orjson.OPT_INDENT_2) + b"\n"
    response = web.Response(status=reply.status, body=body)
    headers = response.headers
    headers["Content-Type"] = reply.content_type
    for name, value in reply.headers:
        headers.add(name, value)
    headers.setdefault("Cache-Control", "no-cache, private")
    for text in request.warnings:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        headers.add("Warning", f'299 - "{escaped}"')
    return response


def _error(request: Request, error: StatusError) -> web.Response:
    if isinstance(error, PageNotFound):
        body = error.message.encode() + b"\n"
        return _response(request, Reply(404, body, "text/plain; charset=utf-8"))
    reply = Reply(error.code, orjson.dumps(error.status()))
    if error.retry_after is not None:
        reply.headers.append(("Retry-After", str(error.retry_after)))
    return _response(request, reply)


class DeepParts:
    """What is nested below a hundred levels, set aside; the rest of the server sees a text in its place.

    Python's own decoders do not go as deep as the real server keeps objects.
    """

    def __init__(self) -> None:
        self._parts: dict[bytes, bytes] = {}
        self._nonce = random_hex(8)
        self._places: Final = re.compile(rb'"deep-%b-[0-9a-f]{64}"' % self._nonce.encode())

    def set_aside(self, body: bytes) -> bytes:
        """Return a document without what is nested too deep in it; the same if nothing is."""
        if not is_deeper(body, READ) or is_deeper(body, MOST):
            return body
        kept: list[bytes] = []
        depth = at = start = 0
        for token in _TOKEN.finditer(body):
            mark = body[token.start()]
            if mark in b"{[":
                depth += 1
                if depth == KEPT + 1:
                    start = token.start()
            elif mark in b"}]":
                if depth == KEPT + 1:
                    kept += (body[at:start], self._place_of(body[start : token.end()]))
                    at = token.end()
                depth -= 1
        return b"".join([*kept, body[at:]])

    def put_back(self, body: bytes) -> bytes:
        """Return what the server answers with those parts in their places."""
        if not self._parts:
            return body
        return self._places.sub(lambda found: self._parts.get(found[0], found[0]), body)

    def _place_of(self, part: bytes) -> bytes:
        place = f'"deep-{self._nonce}-{sha256(part).hexdigest()}"'.encode()
        self._parts[place] = part
        return place
