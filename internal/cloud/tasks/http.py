"""One HTTP request and its reply: redirects, secrets for one host only, retries."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from ctrlruntime.backoff import exponential
from ctrlruntime.outbound_addresses import AddressRefused
from ctrlruntime.outbound_http import displayed_url

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_PRIVATE: Final = frozenset({"authorization", "cookie", "proxy-authorization"})
_ABOUT_BODY: Final = frozenset({"content-type", "content-length", "content-encoding"})
_PRINTABLE: Final = re.compile(r"[!-~]+")
MOST_REDIRECTS: Final = 10
_TOO_MANY_REQUESTS: Final = 429


class ExchangeError(Exception):
    """There is no reply. The message names the address without its query, and no secret."""


class NotSent(ExchangeError):
    """No connection was made, so the request was not received."""


class NoReply(ExchangeError):
    """The request may have been carried out or not."""


class BadAddress(ExchangeError):
    """The address, or one it redirects to, is not usable; a retry does not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A request."""

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secret_headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent to the scheme, host and port of `url` alone, wherever redirects lead. So are `Authorization`
    and cookies among the other headers."""
    body: bytes | None = field(default=None, repr=False)
    timeout: float = 30.0
    """Seconds for everything, redirects included."""
    exact: bool = False
    """Whether `url` is sent letter by letter, since it is signed. Redirects always are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    cut: bool = False
    """Whether the body was longer than the limit, and is its beginning only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """When a request is sent again, and after how many seconds."""

    attempts: int = 3
    base: float = 1.0
    cap: float = 30.0
    """Longest delay between two attempts, where the reply names none."""
    statuses: frozenset[int] = frozenset({429, 502, 503, 504})
    """Replies after which a repeatable request is sent again."""
    not_received: frozenset[int] = frozenset({429, 503})
    """Replies after which any request is sent again, since it was not carried out."""
    delay_headers: tuple[str, ...] = ("Retry-After",)
    max_header_delay: float = 30.0
    rate_limited: float = 0.0
    """Seconds in all that replies of 429 may delay the request without counting as attempts."""

    def delay(self, attempts: int, reply: Reply | None = None) -> float:
        """Return the delay after `attempts`: what the reply's headers name, or an exponential one."""
        headers = reply.headers if reply is not None else {}
        for name in self.delay_headers:
            try:
                seconds = float(headers.get(name, ""))
            except ValueError:
                continue
            if 0 < seconds < float("inf"):
                return min(seconds, self.max_header_delay)
        return exponential(self.base, self.cap, attempts - 1)


async def exchange(http: aiohttp.ClientSession, message: Message, *, limit: int = 1 << 20) -> Reply:
    """Send it, and read at most `limit` bytes of the answer, whatever its status.

    Redirects are followed as a browser does: 303, and 301 and 302 after a POST, become a GET without
    a body. Raises NotSent, NoReply, BadAddress.
    """
    try:
        async with asyncio.timeout(message.timeout):
            return await _followed(http, message, limit)
    except TimeoutError as error:
        text = f"{displayed_url(message.url)} did not answer within {message.timeout:g} s"
        raise NoReply(text) from error


async def exchange_with_retries(
    http: aiohttp.ClientSession,
    message: Message,
    policy: RetryPolicy,
    *,
    repeatable: bool,
    limit: int = 1 << 20,
    accepted: Callable[[Reply], bool] = lambda _reply: False,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Reply:
    """Send a request, and again as `policy` decides; return the last reply.

    A request that is not `repeatable` is sent again only if it was not carried out. A reply that is
    `accepted` is returned at once. Raises as :func:`exchange` does.
    """
    attempts, waited = 0, 0.0
    statuses = policy.statuses if repeatable else policy.not_received
    while True:
        attempts += 1
        try:
            reply = await exchange(http, message, limit=limit)
        except BadAddress:
            raise
        except ExchangeError as error:
            if attempts >= policy.attempts or not (repeatable or isinstance(error, NotSent)):
                raise
            await sleep(policy.delay(attempts))
            continue
        delay = policy.delay(attempts, reply)
        if reply.status == _TOO_MANY_REQUESTS and waited < policy.rate_limited:
            waited += delay
            attempts = min(attempts, 3)
        elif accepted(reply) or reply.status not in statuses or attempts >= policy.attempts:
            return reply
        await sleep(delay)


async def _followed(http: aiohttp.ClientSession, message: Message, limit: int) -> Reply:
    origin = _origin(_address(message.url, message.exact))
    shown = displayed_url(message.url)
    for hop in range(MOST_REDIRECTS + 1):
        place = shown if hop == 0 else f"what {shown} redirects to"
        reply = await _once(http, message, limit, place)
        location = reply.headers.get("Location")
        if reply.status not in _REDIRECTS or not location:
            return reply
        message = _redirected(message, reply.status, location, origin, place)
    raise BadAddress(f"{shown} leads to more than {MOST_REDIRECTS} redirects")


def _redirected(message: Message, status: int, location: str, origin: str, place: str) -> Message:
    """Return the next message. Errors call the address of this one `place`: a redirect's is part of an answer."""
    exact = _PRINTABLE.fullmatch(location) is not None
    try:
        base = URL(message.url, encoded=message.exact)
        target = _address(str(base.join(URL(location, encoded=exact))), exact)
    except (ValueError, BadAddress):
        raise BadAddress(f"{place} redirects to what is no address of http or https") from None
    method, body, headers = message.method, message.body, CIMultiDict(message.headers)
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        method, body = "GET", None
        headers = CIMultiDict((k, v) for k, v in headers.items() if k.lower() not in _ABOUT_BODY)
    secret = message.secret_headers
    if _origin(target) != origin:
        secret = {}
        headers = CIMultiDict((k, v) for k, v in headers.items() if k.lower() not in _PRIVATE)
    return replace(
        message,
        method=method,
        url=str(target),
        body=body,
        headers=headers,
        secret_headers=secret,
        exact=exact,
    )


async def _once(http: aiohttp.ClientSession, message: Message, limit: int, place: str) -> Reply:
    url = _address(message.url, message.exact)
    try:
        async with http.request(
            message.method,
            url,
            headers=CIMultiDict({**message.headers, **message.secret_headers}),
            data=message.body,
            allow_redirects=False,
        ) as response:
            body = await _read(response.content, limit + 1)
            headers = CIMultiDict(response.headers)
            return Reply(
                status=response.status, headers=headers, body=body[:limit], cut=len(body) > limit
            )
    except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
        if isinstance(getattr(error, "os_error", None), AddressRefused):
            raise BadAddress(f"{place} is refused: {_cause(error)}") from None
        raise NotSent(f"{place} cannot be reached: {_cause(error)}") from error
    except (aiohttp.ClientError, ConnectionError) as error:
        raise NoReply(f"{place} gave no answer: {type(error).__name__}") from None
    except ValueError as error:
        raise BadAddress(
            f"{place} cannot be asked: a header has a character that none may have"
        ) from error


async def _read(content: aiohttp.StreamReader, most: int) -> bytes:
    found = bytearray()
    while len(found) < most and (chunk := await content.read(most - len(found))):
        found += chunk
    return bytes(found)


def _address(text: str, exact: bool) -> URL:
    try:
        url = URL(text, encoded=exact)
        _ = url.port  # which an exact address is parsed for only now
    except ValueError as error:
        raise BadAddress("the address is none: look for spaces and odd characters") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise BadAddress(f"{displayed_url(url)} is no address of http or https")
    return url


def _origin(url: URL) -> str:
    return str(url.origin())


def _cause(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error.strerror or type(error.os_error).__name__
    return type(error).__name__
