"""The API server of a simulation, which notes every request and every change, and fails where it is to fail."""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import orjson
from aiohttp import web

from ctrlruntime.envtest.server import APIServer, ServerOptions
from ctrlruntime.envtest.server.request import Request
from ctrlruntime.envtest.server.storage import Bucket, Change
from ctrlruntime.envtest.server.watch import Watch
from ctrlruntime.envtest.simulation.network import Transport
from ctrlruntime.envtest.simulation.process import Process
from ctrlruntime.envtest.simulation.trace import Trace

WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(slots=True)
class Call:
    """One request of one process, and what came of it."""

    at: float
    process: Process | None
    """None for the test itself."""
    request: Request
    server: SimulatedServer
    status: int = 0
    """Of the answer; 0 while there is none."""
    lost: bool = False
    """Whether the caller does not learn the answer."""
    changes: list[Change] = field(default_factory=list)
    """What it changed, with what followed at once."""

    @property
    def who(self) -> str:
        return self.process.root.name if self.process is not None else ""

    @property
    def is_write(self) -> bool:
        return self.request.verb in WRITES and not self.request.dry_run

    @property
    def path(self) -> str:
        """Kind and name, without subresource; in others than the first cluster with the name of it."""
        request = self.request
        path = f"{request.resource}.{request.group}/{request.namespace}/{request.name}"
        return self.server.qualified(path)


CALL: Final[contextvars.ContextVar[Call | None]] = contextvars.ContextVar("call", default=None)


class Meddler(Protocol):
    """Decides about requests."""

    async def before(self, call: Call, transport: Transport) -> tuple[int, str] | None:
        """Return the status and reason of a refusal, or None; may wait, cut and kill."""

    async def after(self, call: Call, transport: Transport) -> tuple[int, str] | None:
        """Return what is answered instead, or None."""


class Witness(Protocol):
    """Is shown what happens."""

    def changed(self, call: Call | None, bucket: Bucket, change: Change) -> None:
        """Take a change of an object, while it is made."""

    def answered(self, call: Call) -> None:
        """Take a request that has been answered, or whose answer is lost; a watch when it begins."""


class SimulatedServer(APIServer):
    """One server for the processes of a simulation; its storage stays when they are killed."""

    def __init__(
        self,
        options: ServerOptions,
        now: Callable[[], float],
        trace: Trace,
        meddler: Meddler,
        name: str = "",
    ) -> None:
        """`name`: of the cluster, where there are several; the first one has none."""
        super().__init__(options)
        self.name = name
        self.witnesses: list[Witness] = []
        self._watches: dict[Transport, Watch] = {}
        self._now = now
        self._trace = trace
        self._meddler = meddler
        self.state.storage.listeners.append(self._changed)

    def qualified(self, path: str) -> str:
        """Return what names an object of this server among those of all."""
        return f"{self.name}:{path}" if self.name else path

    def end_watch(self, transport: Transport) -> None:
        """End the watch on a connection in order, as a server does that is restarted."""
        if (watch := self._watches.get(transport)) is not None:
            watch.end()

    def keep_bookmarks(self, transport: Transport) -> Callable[[], None]:
        """Send no more bookmarks in the watch on a connection. Return what ends that."""
        watch = self._watches.get(transport)
        if watch is None or not (options := watch.options).bookmarks:
            return lambda: None
        watch.options = replace(options, bookmarks=False)
        return lambda: setattr(watch, "options", options)

    async def _stream(
        self, raw: web.BaseRequest, request: Request, watch: Watch
    ) -> web.StreamResponse:
        transport = raw.transport
        if not isinstance(transport, Transport):
            return await super()._stream(raw, request, watch)
        self._watches[transport] = watch
        if (call := CALL.get()) is not None:
            call.status = 200
            self._show(call)
        try:
            return await super()._stream(raw, request, watch)
        finally:
            self._watches.pop(transport, None)

    def _changed(self, bucket: Bucket, change: Change) -> None:
        call = CALL.get()
        if call is not None:
            call.changes.append(change)
        for witness in self.witnesses:
            witness.changed(call, bucket, change)

    async def _handle(self, raw: web.BaseRequest) -> web.StreamResponse:
        transport = raw.transport
        if not isinstance(transport, Transport):  # it went in the meantime
            return await super()._handle(raw)
        call = Call(self._now(), transport.peer_process, super()._parsed(raw), self)
        token = CALL.set(call)
        try:
            return await self._meddled(raw, call, transport)
        finally:
            CALL.reset(token)

    def _parsed(self, raw: web.BaseRequest) -> Request:
        call = CALL.get()
        return super()._parsed(raw) if call is None else call.request

    async def _meddled(
        self, raw: web.BaseRequest, call: Call, transport: Transport
    ) -> web.StreamResponse:
        refusal = await self._meddler.before(call, transport)
        if refusal is None and transport.is_closing():  # the caller went while its request was slow
            call.lost, refusal = True, (503, "ServiceUnavailable")
        if refusal is not None:
            call.status = refusal[0]
            self._answered(call)
            return _refused(*refusal)
        if call.request.verb == "watch":
            self._trace.note(call.at, call.who, _line(call))
            response = await super()._handle(raw)
            if not call.status:  # there was no stream
                call.status = response.status
                self._show(call)
            return response
        response = await super()._handle(raw)
        call.status = response.status
        other = await self._meddler.after(call, transport)
        call.lost = call.lost or other is not None
        self._answered(call)
        return response if other is None else _refused(*other)

    def _answered(self, call: Call) -> None:
        self._trace.note(self._now(), call.who, _line(call))
        self._show(call)

    def _show(self, call: Call) -> None:
        for witness in self.witnesses:
            witness.answered(call)


def _line(call: Call) -> str:
    request = call.request
    query = "&".join(f"{key}={value}" for key, value in sorted(request.query.items()))
    path = f"{request.path}?{query}" if query else request.path
    ending = f" -> {call.status}" if call.status else ""
    lost = " (the answer is lost)" if call.lost else ""
    return f"{request.method} {call.server.qualified(path)}{ending}{lost}"


def _refused(status: int, reason: str) -> web.Response:
    body: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"simulated {reason}",
        "reason": reason,
        "code": status,
    }
    headers = {"Retry-After": "1"} if status == 429 else None
    return web.Response(
        status=status, body=orjson.dumps(body), content_type="application/json", headers=headers
    )
