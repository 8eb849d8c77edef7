"""The proxy itself: listener, users, faults and log in one place."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import structlog

from ctrlruntime.envtest.proxy.framing import Head
from ctrlruntime.envtest.proxy.log import RequestLog
from ctrlruntime.envtest.proxy.relay import ClientSide, Relay
from ctrlruntime.envtest.proxy.requests import RequestInfo
from ctrlruntime.envtest.proxy.rules import (
    Action,
    ActiveRule,
    CutWatch,
    Match,
    Rule,
    RuleSet,
    SilenceWatch,
)
from ctrlruntime.envtest.proxy.stream import WatchStream
from ctrlruntime.graceful_server import Arrivals, stop_listening

logger = structlog.get_logger(__name__)

Notify = Callable[[ActiveRule, RequestInfo], None]


@dataclass(frozen=True, kw_only=True)
class ProxyOptions:
    """Options of a `Proxy`.

    `users` maps bearer tokens to user names; who brings no known token goes by the first product
    of its User-Agent. `server_tls` is the client context for an https upstream, `tls` the
    context the proxy serves with (None: plain http). `keep` is how many requests the log keeps
    one by one.
    """

    host: str = "127.0.0.1"
    port: int = 0
    users: Mapping[str, str] = field(default_factory=dict)
    tls: ssl.SSLContext | None = None
    server_tls: ssl.SSLContext | None = None
    keep: int = 20_000


class Proxy:
    """A loopback proxy in front of an API server that logs every request and carries faults.

        async with Proxy("http://127.0.0.1:6443") as proxy:
            mark = proxy.log.mark()
            proxy.add(Fail(429, retry_after=1), Match(verb="apply"))
            ...
            assert proxy.log.since(mark).writes == 1

    Client certificates end at the proxy: its users are known to the server by their tokens.
    """

    def __init__(self, upstream: str, options: ProxyOptions | None = None) -> None:
        self.options = options or ProxyOptions()
        parts = urlsplit(upstream)
        if parts.scheme not in ("http", "https") or parts.hostname is None:
            raise ValueError(f"upstream {upstream!r} is no http:// or https:// URL")
        self._address = (parts.hostname, parts.port or (443 if parts.scheme == "https" else 80))
        self._server_tls = self._client_context(parts.scheme)
        self.log = RequestLog(keep=self.options.keep)
        self.rules = RuleSet()
        self.relays: set[Relay] = set()
        self.streams: set[WatchStream] = set()
        self.arrivals = Arrivals()
        self._users: dict[bytes, str] = {}
        for token, name in self.options.users.items():
            self.add_user(token, name)
        self._server: asyncio.Server | None = None
        self._notify: dict[int, Notify] = {}
        self._fired = asyncio.Event()

    def _client_context(self, scheme: str) -> ssl.SSLContext | None:
        if scheme == "http":
            return None
        return self.options.server_tls or ssl.create_default_context()

    # Life

    async def start(self) -> None:
        self._server = await asyncio.get_running_loop().create_server(
            lambda: self.arrivals.expect(ClientSide(self)),
            self.options.host,
            self.options.port,
            ssl=self.options.tls,
            backlog=1024,
        )

    async def stop(self) -> None:
        """Close the listener and break every connection."""
        if self._server is not None:
            await stop_listening(self._server, self.arrivals)
        for relay in list(self.relays):
            relay.abort()
        if self._server is not None:
            await self._server.wait_closed()
            self._server = None

    async def __aenter__(self) -> Proxy:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def port(self) -> int:
        if self._server is None:
            raise RuntimeError("the proxy is not running: call start() first")
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        scheme = "http" if self.options.tls is None else "https"
        return f"{scheme}://{self.options.host}:{self.port}"

    @property
    def connections(self) -> int:
        """Client connections that are open."""
        return sum(1 for relay in self.relays if relay.has_client)

    # Users

    def add_user(self, token: str, name: str) -> None:
        """Request with this bearer token are logged under `name`."""
        self._users[b"Bearer " + token.encode()] = name

    def user_of(self, head: Head) -> str:
        name = self._users.get(head.headers.get(b"authorization", b""))
        if name is not None:
            return name
        agent = head.text(b"user-agent")
        return agent.split("/", 1)[0].split(" ", 1)[0] or "anonymous"

    # Faults

    def add(
        self,
        action: Action,
        match: Match | None = None,
        *,
        nth: int = 1,
        times: int | None = 1,
        notify: Notify | None = None,
    ) -> ActiveRule:
        """Put a fault into force: from the `nth` match on, `times` times (None: always).

        `notify` is called, on the loop, each time it fires. The answer has `matched` and `fired`.
        """
        return self.add_rule(
            Rule(match=match or Match(), action=action, nth=nth, times=times), notify
        )

    def add_rule(self, rule: Rule, notify: Notify | None = None) -> ActiveRule:
        active = self.rules.add(rule)
        if notify is not None:
            self._notify[active.id] = notify
        if isinstance(rule.action, CutWatch | SilenceWatch):
            self._act_on_open_streams(active)
        return active

    def remove(self, rule: ActiveRule | int) -> None:
        id_ = rule if isinstance(rule, int) else rule.id
        self.rules.remove(id_)
        self._notify.pop(id_, None)

    def clear(self) -> None:
        """Remove every fault. Streams already silenced stay so."""
        self.rules.clear()
        self._notify.clear()

    async def wait_fired(self, rule: ActiveRule, times: int = 1) -> None:
        """Wait until `rule` has fired `times` times."""
        while rule.fired < times:
            event = self._fired
            await event.wait()

    def _act_on_open_streams(self, active: ActiveRule) -> None:
        action = active.rule.action
        if isinstance(action, CutWatch) and not action.at_once:
            return
        for stream in sorted(self.streams, key=lambda s: s.info):
            if not active.meets_new_stream(stream.info):
                continue
            if isinstance(action, CutWatch):
                stream.end(clean=action.clean)
            else:
                stream.silence()
            self.fired(active, stream.info)

    def fired(self, rule: ActiveRule, info: RequestInfo) -> None:
        """Count a rule that fired; the relays call it."""
        logger.info(
            "fault",
            rule=rule.id,
            action=type(rule.rule.action).__name__,
            user=info.user,
            verb=info.verb,
            resource=info.resource,
            namespace=info.namespace,
            name=info.name,
        )
        notify = self._notify.get(rule.id)
        if notify is not None:
            notify(rule, info)
        event, self._fired = self._fired, asyncio.Event()
        event.set()

    def kill(self, pid: int) -> None:
        """SIGKILL for one process."""
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            logger.warning("the process to kill is gone", pid=pid)

    async def connect(self, factory: Callable[[], asyncio.Protocol]) -> None:
        """Open a connection to the API server."""
        host, port = self._address
        await asyncio.get_running_loop().create_connection(
            factory,
            host,
            port,
            ssl=self._server_tls,
            server_hostname=host if self._server_tls is not None else None,
        )


def server_context(ca: bytes | None, *, verify: bool = True) -> ssl.SSLContext:
    """Return a context to reach an https upstream with; `ca` is PEM."""
    if verify:
        return ssl.create_default_context(cadata=ca.decode() if ca else None)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def serving_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """Return a context to serve with; both files are PEM."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
