"""The user of a request: by bearer token, by the session of a sign-in, or as a trusted proxy states."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

from aiohttp import web

from ctrlruntime.clock import monotonic, random_hex
from ctrlruntime.manager.authorization import AccessReviews, Caller, bearer_token
from manager.console.options import ConsoleOptions, Network, is_loopback

SECONDS: Final = 8 * 3600.0
"""How long a session lasts, whatever it is used for."""
MOST: Final = 1000
"""Sessions that are kept; the oldest end first."""
MOST_EACH: Final = 10
"""Sessions of one user; the user's oldest end first, so that one user's sign-ins end no session of others."""


@dataclass(frozen=True, slots=True)
class Session:
    """A sign-in that lasts."""

    username: str
    token: str = field(repr=False)
    until: float
    """On the clock of the sessions, in seconds."""


class Sessions:
    """The sessions of a console, by their ids. Bounded in number and time; another replica has others."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, username: str, token: str) -> str:
        """Return the id of a new session: 256 random bits."""
        self._forget_ended()
        own = [key for key, each in self._sessions.items() if each.username == username]
        for key in own[: max(0, len(own) - MOST_EACH + 1)]:
            self.close(key)
        while len(self._sessions) >= MOST:
            self._sessions.popitem(last=False)
        key = random_hex(32)
        self._sessions[key] = Session(username, token, self._clock() + SECONDS)
        return key

    def token(self, key: str) -> str:
        """Return the token of a session; empty for an id that is unknown, or whose session has ended."""
        self._forget_ended()
        found = self._sessions.get(key)
        return found.token if found is not None else ""

    def close(self, key: str) -> None:
        """End a session, if there is one."""
        self._sessions.pop(key, None)

    def _forget_ended(self) -> None:
        """Drop what has ended: all last equally long, so these are the first."""
        now = self._clock()
        while self._sessions and next(iter(self._sessions.values())).until <= now:
            self._sessions.popitem(last=False)


COOKIE: Final = "ctrlruntime-console"
"""Cookie with the id of a session; it ends with the browser."""
AUTHENTICATED: Final = "system:authenticated"
RESERVED: Final = "system:"
"""Names that begin so belong to Kubernetes: a proxy cannot give them to anybody."""
LONGEST_TOKEN: Final = 8192
"""Characters of a token that can sign in."""


class Unknown(Exception):
    """A user who is not known. The message is for the sign-in page."""


@dataclass(frozen=True, slots=True)
class Users:
    """Finds the user of a request."""

    options: ConsoleOptions
    reviews: AccessReviews
    sessions: Sessions = field(default_factory=Sessions)

    async def caller(self, request: web.Request) -> Caller:
        """Return the user. Raises Unknown, and what AccessReviews raises."""
        if self.is_proxied(request):
            return self._proxied(request)
        if token := bearer_token(request.headers.get("Authorization", "")):
            return await self.of_token(request, token)
        session = request.cookies.get(COOKIE, "")
        token = self.sessions.token(session)
        if not token:
            raise Unknown("The session has ended." if session else "")
        try:
            return await self.of_token(request, token)
        except Unknown:
            self.sessions.close(session)
            raise

    async def of_token(self, request: web.Request, token: str) -> Caller:
        """Return the user of a token. Raises Unknown for one that is not valid or came in clear."""
        if not self.may_send_tokens(request):
            raise Unknown("Tokens are only taken over https or from this machine.")
        caller = await self.reviews.caller(token)
        if caller is None:
            raise Unknown("The token is not valid, or no longer.")
        return caller

    def is_proxied(self, request: web.Request) -> bool:
        """Return whether a trusted proxy states the user."""
        return self._is_trusted(request) and self.options.user_header in request.headers

    def may_send_tokens(self, request: web.Request) -> bool:
        """Return whether a token that comes with the request was not seen on its way."""
        peer = request.remote or ""
        return self.options.secure or is_loopback(peer) or self._is_trusted(request)

    def is_https(self, request: web.Request) -> bool:
        """Return whether the browser came by https, here or at the proxy."""
        proxied = request.headers.get("X-Forwarded-Proto", "") if self._is_trusted(request) else ""
        return self.options.secure or proxied.lower() == "https"

    def _is_trusted(self, request: web.Request) -> bool:
        return is_within(request.remote or "", self.options.trusted_proxies)

    def _proxied(self, request: web.Request) -> Caller:
        names = request.headers.getall(self.options.user_header)
        if len(names) > 1:
            raise Unknown("The user is named twice: the proxy has to replace the browser's header.")
        name = names[0].strip()
        values = request.headers.getall(self.options.group_header, [])
        groups = [each.strip() for value in values for each in value.split(",") if each.strip()]
        if not name or any(each.startswith(RESERVED) for each in (name, *groups)):
            raise Unknown("The proxy states a user or group that is reserved for Kubernetes.")
        return Caller(name, groups=(*sorted(set(groups)), AUTHENTICATED))


def is_within(peer: str, networks: Sequence[Network]) -> bool:
    """Return whether an address is in one of the networks."""
    try:
        address = ip_address(peer)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return any((mapped or address) in network for network in networks)
