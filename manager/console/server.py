"""The console's server: pages, streams, sign-in, static files. Every answer has a strict policy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from aiohttp import web
from aiohttp.typedefs import Middleware

from ctrlruntime.client.errors import APIError, TransportError
from ctrlruntime.manager import Group, Manager
from ctrlruntime.manager.app_server import AppServer
from ctrlruntime.manager.authorization import AccessReviews, Caller, TooManyUnknownTokens
from ctrlruntime.manager.http import listen
from ctrlruntime.manager.serving import followed, serving_tls
from ctrlruntime.side_by_side import first_to_end
from manager.console.access import Denied, sight
from manager.console.changes import TooManyStreams
from manager.console.options import ConsoleOptions
from manager.console.pages import PAGES, Page
from manager.console.rendering import STATIC, Renderer, link
from manager.console.scopes import namespace_of
from manager.console.state import ConsoleState
from manager.console.users import COOKIE, LONGEST_TOKEN, Unknown, Users

if TYPE_CHECKING:
    from ctrlruntime.webhook.mounted import CertWatcher

PERIOD: Final = 1.0
"""Seconds between two events of a stream, at least."""
ALIVE: Final = 20.0
"""Seconds after which an idle stream sends a comment, so that proxies keep it."""
TAKEN: Final = 10.0
"""Seconds that a client has to take an event; a slower one is dropped."""
Wait = Callable[[], Awaitable[None]]
Check = Callable[[], Awaitable[bool]]

POLICY: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Server": "console",
}
"""The last one instead of the versions of Python and aiohttp."""
LARGEST_FORM: Final = 16 * 1024
SHUTDOWN: Final = 5.0
"""Seconds that answers in progress have at the end; streams end at once."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add_console(manager: Manager, options: ConsoleOptions) -> int:
    """Serve the console while a manager runs, on every replica; return its port.

    Call it once the controllers are added: it shows the kinds that they declared. Raises AddressError
    and ConsoleOptionsError.
    """
    options.check()
    console = Console(manager, options)
    manager.add(console)
    return console.port


class Console:
    """A runnable of the manager: begins when the caches have synced, ends first."""

    runnable_group = Group.OTHERS
    needs_leader_election = False

    def __init__(self, manager: Manager, options: ConsoleOptions) -> None:
        self.reviews = AccessReviews(manager.cluster.connect)
        self.state = ConsoleState(manager, options)
        self._users = Users(options, self.reviews)
        self._renderer = Renderer()
        self._streams = Streams()
        self._options = options
        self._manager = manager
        self._logger = manager.logger
        self._mounted: CertWatcher | None = None
        self._server = self._make_server()

    def __repr__(self) -> str:
        return f"Console({self._options.bind_address!r})"

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._server.port

    async def start(self) -> None:
        """Serve until cancelled. Raises CertificateError if there is no certificate to serve."""
        scheme = "https" if self._options.secure else "http"
        host = self._options.bind_address.rpartition(":")[0] or "127.0.0.1"
        try:
            await asyncio.to_thread(self._renderer.load)
            async with followed(self._mounted):
                self._logger.info("Serving the console", url=f"{scheme}://{host}:{self.port}/")
                await first_to_end(self._server.start(), self.state.keep_sampling())
        finally:
            await self.state.close()
            await self.reviews.close()

    async def wait_ready(self) -> None:
        """Return once it serves."""
        await self._server.wait_ready()

    # -- parts -----------------------------------------------------------------------------

    def _make_server(self) -> AppServer:
        listener = listen(self._options.bind_address, "the console")
        assert listener is not None  # noqa: S101 - add_console is for consoles that are on
        middlewares: list[Any] = [self._guarded]
        tls = None
        if self._options.secure:
            names = (self._options.cert_name, self._options.cert_key)
            certificates = self._manager.metrics.certificates
            tls, self._mounted = serving_tls(
                self._options.cert_path, names, certificates, self._logger
            )
            middlewares.append(tls.renewal)
        app = web.Application(middlewares=middlewares, client_max_size=LARGEST_FORM)
        app.add_routes(self._routes())
        app.on_shutdown.append(self._end_streams)
        return AppServer(
            "console",
            app,
            listener,
            group=Group.OTHERS,
            tls=tls.context if tls is not None else None,
            shutdown_timeout=SHUTDOWN,
            handler_cancellation=True,
        )

    def _routes(self) -> list[web.RouteDef]:
        routes = [
            web.get("/static/{name}", self._static),
            web.get("/favicon.ico", self._no_icon),
            web.get("/sign-in", self._sign_in_page),
            web.post("/sign-in", self._sign_in),
            web.post("/sign-out", self._sign_out),
        ]
        routes += [web.get(page.path, self._shower(page)) for page in PAGES]
        routes += [web.get(f"/live{page.path}", self._follower(page)) for page in PAGES]
        return routes

    async def _end_streams(self, _app: web.Application) -> None:
        self._streams.stop()

    # -- pages -----------------------------------------------------------------------------

    def _shower(self, page: Page) -> Handler:
        async def show(request: web.Request) -> web.StreamResponse:
            caller = await self._users.caller(request)
            scope = page.scope(self.state, request)
            seen = await sight(self.reviews, caller, scope)
            for index in (*seen.kinds, *seen.related):
                await index.refresh()
            model = await page.model(self.state, request, seen)
            return self._page(
                request, page.template, {**model, "hidden": seen.hidden}, caller, page.title
            )

        return show

    def _follower(self, page: Page) -> Handler:
        async def follow(request: web.Request) -> web.StreamResponse:
            caller = await self._users.caller(request)
            scope = page.scope(self.state, request)
            seen = await sight(self.reviews, caller, scope)
            for index in (*seen.kinds, *seen.related):
                await index.refresh()

            async def may_see() -> bool:
                nonlocal seen
                try:
                    seen = await sight(self.reviews, await self._users.caller(request), scope)
                except (
                    Denied,
                    Unknown,
                    TooManyUnknownTokens,
                    APIError,
                    TransportError,
                    TimeoutError,
                ):
                    return False
                return True

            with (
                self.state.changes.subscribed(*seen.topics(scope)) as subscription,
                self.state.run_tails.watching(subscription.notify) as watch,
            ):

                async def changed() -> None:
                    watch.follow(page.log(request, seen))
                    await subscription.wait()

                wait = changed if seen.kinds else self._process_changes()
                return await self._streams.send(request, wait, may_see, POLICY)

        return follow

    def _process_changes(self) -> Callable[[], Awaitable[None]]:
        """Return what waits for a change of the process's own counts, which no event reports."""
        states = self._manager.metrics.queue_states
        last = [states()]

        async def changed() -> None:
            while (now := states()) == last[0]:  # noqa: ASYNC110 - counts in memory, without a request
                await asyncio.sleep(PERIOD)
            last[0] = now

        return changed

    def _page(
        self,
        request: web.Request,
        template: str,
        model: dict[str, Any],
        caller: Caller | None,
        title: str,
        status: int = 200,
    ) -> web.Response:
        text = self._renderer.render(
            template,
            {
                "title": title,
                "menu": [page for page in PAGES if page.in_menu],
                "path": request.path,
                "query": dict(request.query),
                "here": link(request.path, **dict(request.query)),
                "namespace": namespace_of(request),
                "user": caller.username if caller is not None else "",
                "may_sign_out": COOKIE in request.cookies,
                "live": status == 200 and caller is not None,
                **model,
            },
        )
        return web.Response(text=text, content_type="text/html", status=status)

    # -- signing in ------------------------------------------------------------------------

    async def _sign_in_page(self, request: web.Request) -> web.StreamResponse:
        return self._ask_to_sign_in(request, "", 200)

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        _check_same_origin(request, https=self._users.is_https(request))
        if request.content_type != "application/x-www-form-urlencoded":
            raise web.HTTPUnsupportedMediaType
        try:
            form = await request.post()
        except (
            ValueError,
            LookupError,
        ):  # the bytes are not of the charset, or there is no such one
            raise web.HTTPBadRequest from None
        token = str(form.get("token", "")).strip()
        if not token or len(token) > LONGEST_TOKEN:
            raise Unknown(f"Paste a bearer token; it has at most {LONGEST_TOKEN:,} characters.")
        caller = await self._users.of_token(request, token)
        self._users.sessions.close(request.cookies.get(COOKIE, ""))
        answer = _see(_local_path(str(form.get("next", "/"))))
        answer.set_cookie(
            COOKIE,
            self._users.sessions.open(caller.username, token),
            httponly=True,
            samesite="Strict",
            secure=self._users.is_https(request),
        )
        return answer

    async def _sign_out(self, request: web.Request) -> web.StreamResponse:
        _check_same_origin(request, https=self._users.is_https(request))
        self._users.sessions.close(request.cookies.get(COOKIE, ""))
        answer = _see("/sign-in")
        answer.del_cookie(COOKIE)
        return answer

    def _ask_to_sign_in(self, request: web.Request, message: str, status: int) -> web.Response:
        wanted = request.query.get("next", "/") if request.path == "/sign-in" else request.path_qs
        model = {
            "message": message,
            "next": _local_path(wanted),
            "may_sign_in": self._users.may_send_tokens(request),
        }
        answer = self._page(request, "sign_in.html", model, None, "Sign in", status)
        if status == 401:
            answer.headers["WWW-Authenticate"] = 'Bearer realm="console"'
        return answer

    # -- every answer ----------------------------------------------------------------------

    async def _static(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in STATIC:
            raise web.HTTPNotFound
        return web.Response(
            body=self._renderer.static[name],
            content_type=STATIC[name],
            charset="utf-8",
            headers={"Cache-Control": "public, max-age=86400, immutable"},
        )

    async def _no_icon(self, _request: web.Request) -> web.StreamResponse:
        return web.Response(status=204)

    @property
    def _guarded(self) -> Middleware:
        @web.middleware
        async def guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
            try:
                response = await self._answer(request, handler)
            except web.HTTPException as error:
                error.headers.update(POLICY)
                raise
            if not response.prepared:
                for name, value in POLICY.items():
                    response.headers.setdefault(name, value)
            return response

        return guarded

    async def _answer(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer, or with the page of what is wrong."""
        try:
            return await handler(request)
        except Unknown as error:
            return self._ask_to_sign_in(request, str(error), 401)
        except Denied as error:
            self._logger.debug("Page denied", path=request.path, reason=str(error))
            return self._problem(request, "You may not see this page", str(error), 403)
        except TooManyUnknownTokens:
            text = "Too many unknown tokens come in at present. Try again in a second."
            return self._problem(request, "Not checked", text, 429)
        except TooManyStreams:
            return self._problem(request, "Too many pages are followed", "Try again later.", 503)
        except web.HTTPNotFound:
            return self._problem(request, "Not found", "There is no such object or page.", 404)
        except (APIError, TransportError, TimeoutError) as error:
            self._logger.error("Page not checked", path=request.path, error=str(error))
            text = "The API server was not reached for your rights. Try again."
            return self._problem(request, "Not checked", text, 500)
        except web.HTTPException:
            raise
        except Exception as error:
            self._logger.error("Page failed", path=request.path, exc_info=error)
            return self._problem(request, "The page failed", "The manager's log has why.", 500)

    def _problem(self, request: web.Request, title: str, text: str, status: int) -> web.Response:
        return self._page(request, "problem.html", {"text": text}, None, title, status)


def _see(path: str) -> web.Response:
    """Return an answer that has the browser read another page."""
    return web.Response(status=303, headers={"Location": path})


def _check_same_origin(request: web.Request, *, https: bool) -> None:
    """Raise HTTPForbidden unless a form is of this site: by Sec-Fetch-Site, and by Origin.

    Each has to fit where it is sent, and one of them has to be sent: every browser sends Origin with a form.
    """
    site, origin = request.headers.get("Sec-Fetch-Site"), request.headers.get("Origin")
    if (site or "same-origin") != "same-origin" or not (site or origin):
        raise web.HTTPForbidden
    scheme, _, host = (origin or "").partition("://")
    if origin is not None and (host != request.host or (https and scheme != "https")):
        raise web.HTTPForbidden


def _local_path(path: str) -> str:
    """Return a path of this server, whatever a form has."""
    local = path.startswith("/") and not path.startswith(("//", "/\\", "/live/"))
    return path if local and path.isprintable() else "/"


class Streams:
    """Sends events until the client disconnects, loses the right, or the server stops."""

    def __init__(self) -> None:
        self._stopping = asyncio.Event()

    async def send(
        self, request: web.Request, changed: Wait, may_see: Check, headers: Mapping[str, str]
    ) -> web.StreamResponse:
        """Answer a request with a stream of `changed`."""
        response = web.StreamResponse(headers={**headers, "X-Accel-Buffering": "no"})
        response.content_type = "text/event-stream"
        response.charset = "utf-8"
        await response.prepare(request)
        try:
            await self._send(response, changed, may_see)
        except (TimeoutError, ConnectionError):
            if request.transport is not None:
                request.transport.abort()
        return response

    async def _send(self, response: web.StreamResponse, changed: Wait, may_see: Check) -> None:
        await self._write(response, "retry: 2000\nevent: open\ndata: {}\n\n")
        while await self._next(response, changed):
            if not await may_see():
                await self._write(response, "event: end\ndata: {}\n\n")
                return
            await self._write(response, "event: change\ndata: {}\n\n")
            await self._pause(PERIOD)

    def stop(self) -> None:
        """End all streams."""
        self._stopping.set()

    async def _next(self, response: web.StreamResponse, changed: Wait) -> bool:
        """Wait for a change. Returns False when the server stops."""
        change = asyncio.ensure_future(changed())
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            while True:
                done, _ = await asyncio.wait(
                    {change, stopping}, timeout=ALIVE, return_when=asyncio.FIRST_COMPLETED
                )
                if stopping in done:
                    return False
                if change in done:
                    return True
                await self._write(response, ": alive\n\n")
        finally:
            change.cancel()
            stopping.cancel()
            await asyncio.gather(change, stopping, return_exceptions=True)

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return

    async def _write(self, response: web.StreamResponse, text: str) -> None:
        async with asyncio.timeout(TAKEN):
            await response.write(text.encode())
