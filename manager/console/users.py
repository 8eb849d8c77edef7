"""The user of a request: by bearer token, by the session of a sign-in, or as a trusted proxy states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Final

from aiohttp import web

from ctrlruntime.manager.authorization import AccessReviews, Caller, bearer_token
from manager.console.options import ConsoleOptions, Network, is_loopback
from manager.console.sessions import Sessions

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
