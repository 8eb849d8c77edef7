"""The control endpoint of a proxy in its own process, and the client for it.

    GET    /log             the counts now, as a Mark
    GET    /entries?since=n the requests after number n, one by one
    GET    /rules           rules with how often each matched and fired
    POST   /rules           a Rule; answers its RuleState
    DELETE /rules[/id]      removes one or all

Every call carries the token the proxy was started with: a rule can kill a process.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable

import aiohttp
import msgspec
from aiohttp import web

from ctrlruntime.envtest.proxy.log import Counts, LogEntry, Mark
from ctrlruntime.envtest.proxy.proxy import Proxy
from ctrlruntime.envtest.proxy.rules import Action, Match, Rule, RuleState

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_RULE = msgspec.json.Decoder(Rule)


class ControlServer:
    """Serves the control endpoint of `proxy` on loopback."""

    def __init__(self, proxy: Proxy, token: str, *, port: int = 0) -> None:
        self._proxy = proxy
        self._token = token
        self._port = port
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        app = web.Application(middlewares=[self._authenticate])
        app.add_routes(
            [
                web.get("/log", self._log),
                web.get("/entries", self._entries),
                web.get("/rules", self._rules),
                web.post("/rules", self._add),
                web.delete("/rules", self._clear),
                web.delete("/rules/{id}", self._remove),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    @property
    def url(self) -> str:
        if self._runner is None:
            raise RuntimeError("the control endpoint is not running: call start() first")
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    @web.middleware
    async def _authenticate(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("Authorization", "")
        if not hmac.compare_digest(given, f"Bearer {self._token}"):
            return web.Response(status=401, text="the proxy's control token is missing or wrong")
        return await handler(request)

    async def _log(self, _: web.Request) -> web.Response:
        return _json(self._proxy.log.mark())

    async def _entries(self, request: web.Request) -> web.Response:
        try:
            since = int(request.query.get("since", "0"))
        except ValueError:
            return web.Response(status=400, text="since is a number")
        return _json(self._proxy.log.entries(Mark(since, ())))

    async def _rules(self, _: web.Request) -> web.Response:
        return _json(self._proxy.rules.states())

    async def _add(self, request: web.Request) -> web.Response:
        try:
            rule = _RULE.decode(await request.read())
        except msgspec.ValidationError as error:
            return web.Response(status=400, text=str(error))
        active = self._proxy.add_rule(rule)
        return _json(RuleState(active.id, active.rule, active.matched, active.fired))

    async def _clear(self, _: web.Request) -> web.Response:
        self._proxy.clear()
        return web.Response(status=204)

    async def _remove(self, request: web.Request) -> web.Response:
        self._proxy.remove(int(request.match_info["id"]))
        return web.Response(status=204)


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")


class ProxyControl:
    """Steers a proxy that runs as its own process."""

    def __init__(self, url: str, token: str) -> None:
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"}
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> ProxyControl:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def mark(self) -> Mark:
        return msgspec.json.decode(await self._call("GET", "/log"), type=Mark)

    async def counts(self) -> Counts:
        return Counts.of((await self.mark()).rows)

    async def since(self, mark: Mark) -> Counts:
        """Return what was answered after `mark` was taken."""
        return await self.counts() - Counts.of(mark.rows)

    async def entries(self, since: Mark | None = None) -> list[LogEntry]:
        number = since.sequence if since else 0
        body = await self._call("GET", f"/entries?since={number}")
        return msgspec.json.decode(body, type=list[LogEntry])

    async def add(
        self, action: Action, match: Match | None = None, *, nth: int = 1, times: int | None = 1
    ) -> RuleState:
        """As `Proxy.add`, without the callback."""
        rule = Rule(match=match or Match(), action=action, nth=nth, times=times)
        body = await self._call("POST", "/rules", msgspec.json.encode(rule))
        return msgspec.json.decode(body, type=RuleState)

    async def rules(self) -> list[RuleState]:
        return msgspec.json.decode(await self._call("GET", "/rules"), type=list[RuleState])

    async def remove(self, rule: RuleState) -> None:
        await self._call("DELETE", f"/rules/{rule.id}")

    async def clear(self) -> None:
        await self._call("DELETE", "/rules")

    async def _call(self, method: str, path: str, body: bytes | None = None) -> bytes:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                headers=self._headers, timeout=aiohttp.ClientTimeout(total=30)
            )
        async with self._session.request(method, self._url + path, data=body) as response:
            answer = await response.read()
            if response.status >= 400:
                raise ValueError(f"the proxy refused {method} {path}: {answer.decode()}")
            return answer
