"""One client connection and its connection to the server: requests and answers in turn.

Raw asyncio protocols: bodies are passed on as they come, nothing is parsed but heads and chunk
sizes. Requests of one connection are handled one after the other, as HTTP/1.1 answers them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol as Interface
from typing import cast

import orjson
import structlog

from ctrlruntime.envtest.proxy.framing import (
    Body,
    ChunkedBody,
    Head,
    LengthBody,
    MalformedMessage,
    request_body,
    response_body,
    simple_response,
    take_head,
)
from ctrlruntime.envtest.proxy.log import RequestLog
from ctrlruntime.envtest.proxy.requests import RequestInfo, classify
from ctrlruntime.envtest.proxy.rules import ActiveRule, Cut, Delay, Fail, Kill, LoseReply, RuleSet
from ctrlruntime.envtest.proxy.stale import AnswerKey
from ctrlruntime.envtest.proxy.stream import WatchStream
from ctrlruntime.graceful_server import Arrivals

logger = structlog.get_logger(__name__)

LINGER = 30.0
"""Seconds that an answer is still awaited, for the log, after its client has gone."""

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


class Surroundings(Interface):
    """What a relay needs of its proxy."""

    log: RequestLog
    rules: RuleSet
    relays: set[Relay]
    streams: set[WatchStream]
    arrivals: Arrivals

    async def connect(self, factory: Callable[[], asyncio.Protocol]) -> None: ...
    def user_of(self, head: Head) -> str: ...
    def fired(self, rule: ActiveRule, info: RequestInfo) -> None: ...
    def kill(self, pid: int) -> None: ...


class Exchange:
    """One request and its answer."""

    __slots__ = (
        "answer",
        "began",
        "body",
        "decided",
        "head",
        "info",
        "kept",
        "reply",
        "reply_body",
        "sent",
        "stale",
        "stream",
        "unsent",
    )

    def __init__(self, head: Head, info: RequestInfo, began: float) -> None:
        self.head = head
        self.info = info
        self.began = began
        self.body: LengthBody | ChunkedBody = request_body(head)
        self.unsent = head.raw  # head bytes not yet forwarded
        self.sent = False  # the whole request has been forwarded
        self.decided = False  # the rules for its forwarding have been asked
        self.answer: bytes | None = None  # what the proxy answers by itself
        self.reply: Head | None = None
        self.reply_body: Body = LengthBody(0)
        self.stream: WatchStream | None = None
        self.stale: list[ActiveRule] = []
        self.kept: list[bytes] = []


class Relay:
    """The two connections and what is under way on them."""

    def __init__(self, proxy: Surroundings) -> None:
        self._proxy = proxy
        self._loop = asyncio.get_running_loop()
        self._client: asyncio.Transport | None = None
        self._server: asyncio.Transport | None = None
        self._requests = bytearray()
        self._answers = bytearray()
        self._exchange: Exchange | None = None
        self._held = False  # a delay is running
        self._tunnel = False
        self._timer: asyncio.TimerHandle | None = None

    # Connections

    @property
    def has_client(self) -> bool:
        return self._client is not None

    def client_connected(self, transport: asyncio.Transport) -> None:
        self._client = transport
        self._proxy.relays.add(self)
        task = self._loop.create_task(self._connect())
        task.add_done_callback(lambda _: None)  # keeps the task referenced until it is done

    async def _connect(self) -> None:
        try:
            await self._proxy.connect(lambda: ServerSide(self))
        except OSError as error:
            logger.warning("no connection to the API server", error=str(error))
            self.abort()

    def server_connected(self, transport: asyncio.Transport) -> None:
        self._server = transport
        if self._client is None:
            transport.abort()
        else:
            self._advance()

    def client_lost(self) -> None:
        self._client = None
        exchange = self._exchange
        if exchange is not None and exchange.sent and exchange.reply is None:
            # The server may still do the work; the log has to know.
            self._timer = self._loop.call_later(LINGER, self.abort)
            return
        self.abort()

    def server_lost(self) -> None:
        self._server = None
        if self._client is not None:
            self._client.close()
        self._close()

    def abort(self) -> None:
        """Break both connections."""
        for transport in (self._client, self._server):
            if transport is not None:
                transport.abort()
        self._close()

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._exchange is not None and self._exchange.stream is not None:
            self._exchange.stream.close()
            self._proxy.streams.discard(self._exchange.stream)
        if self._client is None or self._server is None:
            self._proxy.relays.discard(self)

    def pause(self, side: asyncio.Transport | None) -> None:
        """Read no more from the other side of `side`, whose buffer is full."""
        other = self._server if side is self._client else self._client
        if other is not None and not other.is_closing():
            other.pause_reading()

    def resume(self, side: asyncio.Transport | None) -> None:
        other = self._server if side is self._client else self._client
        if other is not None and not other.is_closing():
            other.resume_reading()

    # Requests

    def from_client(self, data: bytes) -> None:
        if self._tunnel:
            self._to_server(data)
            return
        self._requests += data
        self._advance()

    def _advance(self) -> None:
        try:
            self._pump_requests()
        except MalformedMessage as error:
            logger.warning("malformed request", error=str(error))
            self.abort()

    def _pump_requests(self) -> None:
        while not self._held and self._server is not None:
            exchange = self._exchange
            if exchange is None:
                head = take_head(self._requests)
                if head is None:
                    return
                exchange = self._exchange = Exchange(
                    head, self._classify(head), self._proxy.log.now()
                )
            if exchange.sent:
                return
            if not exchange.decided:
                exchange.decided = True
                if self._proxy.rules and not self._before(exchange):
                    return
            data = exchange.body.take(self._requests)
            if exchange.answer is None:
                self._to_server(exchange.unsent + data)
                exchange.unsent = b""
            if not exchange.body.done:
                return
            exchange.sent = True
            if exchange.answer is not None:
                self._to_client(exchange.answer)
                self._exchange = None

    def _classify(self, head: Head) -> RequestInfo:
        if len(head.start) != 3:
            raise MalformedMessage(f"request line {' '.join(head.start)[:80]!r}")
        method, target, _ = head.start
        user = self._proxy.user_of(head)
        acting_as = head.text(b"impersonate-user")
        return classify(method, target, head.text(b"content-type"), user, acting_as)

    def _before(self, exchange: Exchange) -> bool:
        """Apply the rules; False if the request does not go on now."""
        proxy, info = self._proxy, exchange.info
        rule = proxy.rules.before(info)
        if rule is None:
            return True
        match rule.rule.action:
            case Kill(pid=pid):
                proxy.kill(pid)
                self.abort()
            case Cut():
                self.abort()
            case Delay(seconds=seconds):
                self._hold(seconds, self._advance)
            case Fail() as fail:
                exchange.answer = _status(fail)
                proxy.log.record(info, fail.code, "Fail", began=exchange.began)
        proxy.fired(rule, info)
        return not self._held and self._client is not None and not self._client.is_closing()

    def _hold(self, seconds: float, then: Callable[[], None]) -> None:
        def resume() -> None:
            self._held = False
            then()

        self._held = True
        self._timer = self._loop.call_later(seconds, resume)

    # Answers

    def from_server(self, data: bytes) -> None:
        if self._tunnel:
            self._to_client(data)
            return
        self._answers += data
        self._advance_answers()

    def _advance_answers(self) -> None:
        try:
            self._pump_answers()
        except MalformedMessage as error:
            logger.warning("malformed answer", error=str(error))
            self.abort()

    def _pump_answers(self) -> None:
        while self._answers and not self._held:
            exchange = self._exchange
            if exchange is None:
                self.abort()  # an answer nobody asked for
                return
            if exchange.reply is None:
                head = take_head(self._answers)
                if head is None or not self._answered(exchange, head):
                    return
                if exchange.reply is None:
                    continue
            self._pass_on(exchange)
            if not exchange.reply_body.done:
                return
            self._finish(exchange)

    def _answered(self, exchange: Exchange, head: Head) -> bool:
        """Take the head of an answer; False if nothing is to be passed on now."""
        if len(head.start) < 2 or not head.start[1].isdigit():
            raise MalformedMessage(f"status line {' '.join(head.start)[:80]!r}")
        code = int(head.start[1])
        if code < 200:
            self._to_client(head.raw)
            if code == 101:
                self._proxy.log.record(exchange.info, code, began=exchange.began)
                self._become_tunnel()
                return False
            return True
        proxy = self._proxy
        exchange.reply = head
        exchange.reply_body = response_body(head, code, exchange.head.start[0])
        if exchange.info.verb == "watch" and code == 200:
            self._open_stream(exchange)
        if not proxy.rules:
            proxy.log.record(exchange.info, code, began=exchange.began)
            exchange.kept.append(head.raw)
            return True
        return self._after(exchange, head, code)

    def _after(self, exchange: Exchange, head: Head, code: int) -> bool:
        proxy, info = self._proxy, exchange.info
        exchange.stale = proxy.rules.stale(info)
        exchange.kept.append(head.raw)
        rule = proxy.rules.after(info, code)
        if rule is None:
            proxy.log.record(info, code, began=exchange.began)
            return True
        action = rule.rule.action
        proxy.log.record(info, code, type(action).__name__, began=exchange.began)
        match action:
            case Kill(pid=pid):
                proxy.kill(pid)
                self.abort()
            case LoseReply():
                self.abort()
            case Delay(seconds=seconds):
                self._hold(seconds, self._deliver)
        proxy.fired(rule, info)
        return False

    def _deliver(self) -> None:
        """Go on with an answer that was held back."""
        exchange = self._exchange
        if exchange is not None and not self._answers:
            self._pass_on(exchange)
            if exchange.reply_body.done:
                self._finish(exchange)
        self._advance_answers()

    def _pass_on(self, exchange: Exchange) -> None:
        stream = exchange.stream
        if stream is not None:
            self._flush_head(exchange)
            body = exchange.reply_body
            if isinstance(body, ChunkedBody):
                payload = body.take_payload(self._answers)
            else:
                payload = body.take(self._answers)
            self._proxy.log.record_watched(exchange.info, len(payload))
            stream.feed(payload)
            return
        data = exchange.reply_body.take(self._answers)
        if exchange.stale:
            exchange.kept.append(data)
        elif exchange.kept:
            self._to_client(exchange.kept.pop() + data)
        else:
            self._to_client(data)

    def _flush_head(self, exchange: Exchange) -> None:
        if exchange.kept:
            self._to_client(exchange.kept.pop())

    def _finish(self, exchange: Exchange) -> None:
        if exchange.stale:
            self._to_client(self._stale_answer(exchange))
        if exchange.stream is not None:
            exchange.stream.ended()
            self._proxy.streams.discard(exchange.stream)
        self._exchange = None
        if not exchange.sent or self._client is None:
            self._shut()  # answered early, or nobody is left to ask
        elif self._requests:
            self._advance()

    def _stale_answer(self, exchange: Exchange) -> bytes:
        live = b"".join(exchange.kept)
        key = AnswerKey(exchange.info.user, exchange.head.start[1], exchange.head.text(b"accept"))
        given: bytes | None = None
        for rule in exchange.stale:
            answers = rule.answers
            if answers is None:
                continue
            older = answers.older(key)
            answers.record(key, live)
            if rule.count() and older is not None and given is None:
                given = older
                rule.fired += 1
                self._proxy.fired(rule, exchange.info)
        return live if given is None else given

    def _shut(self) -> None:
        for transport in (self._client, self._server):
            if transport is not None:
                transport.close()

    def _open_stream(self, exchange: Exchange) -> None:
        proxy = self._proxy
        stream = WatchStream(
            exchange.info,
            proxy.rules,
            write=self._to_client,
            cut=self.abort,
            shut=self._shut,
            fired=proxy.fired,
            chunked=isinstance(exchange.reply_body, ChunkedBody),
        )
        exchange.stream = stream
        proxy.streams.add(stream)

    def _become_tunnel(self) -> None:
        self._tunnel = True
        self._exchange = None
        if self._answers:
            self._to_client(bytes(self._answers))
            self._answers.clear()
        if self._requests:
            self._to_server(bytes(self._requests))
            self._requests.clear()

    def _to_client(self, data: bytes) -> None:
        if self._client is not None and data:
            self._client.write(data)

    def _to_server(self, data: bytes) -> None:
        if self._server is not None and data:
            self._server.write(data)


def _status(fail: Fail) -> bytes:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": fail.message,
        "reason": fail.reason or REASONS.get(fail.code, "Unknown"),
        "code": fail.code,
    }
    headers: dict[str, str] = {}
    if fail.retry_after is not None:
        status["details"] = {"retryAfterSeconds": fail.retry_after}
        headers["Retry-After"] = str(fail.retry_after)
    return simple_response(fail.code, orjson.dumps(status), headers)


class ClientSide(asyncio.Protocol):
    """The connection a client made to the proxy."""

    def __init__(self, proxy: Surroundings) -> None:
        self._arrivals = proxy.arrivals
        self._relay = Relay(proxy)
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._arrivals.arrived(self)
        self._transport = cast("asyncio.Transport", transport)
        self._relay.client_connected(self._transport)

    def data_received(self, data: bytes) -> None:
        self._relay.from_client(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._relay.client_lost()

    def pause_writing(self) -> None:
        self._relay.pause(self._transport)

    def resume_writing(self) -> None:
        self._relay.resume(self._transport)


class ServerSide(asyncio.Protocol):
    """The proxy's connection to the API server."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._relay.server_connected(self._transport)

    def data_received(self, data: bytes) -> None:
        self._relay.from_server(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._relay.server_lost()

    def pause_writing(self) -> None:
        self._relay.pause(self._transport)

    def resume_writing(self) -> None:
        self._relay.resume(self._transport)
