"""The API of HCP Terraform: JSON:API over HTTP, its errors, rate limits and unconfirmed requests.

https://developer.hashicorp.com/terraform/cloud-docs/api-docs
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

import aiohttp
import orjson
from yarl import URL

from ctrlruntime.intake import describe_value
from internal.cloud.tasks.http import (
    BadAddress,
    ExchangeError,
    Message,
    Reply,
    RetryPolicy,
    exchange_with_retries,
)
from internal.cloud.tasks.task import TaskError, TaskRejected

JSON_API: Final = "application/vnd.api+json"
PAGE: Final = 100
"""Items of a page: the most there may be."""
_UNSURE: Final = frozenset({500, 502, 503, 504})
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
LARGEST: Final = 32 << 20

Resource = Mapping[str, Any]
"""A resource object: type, id, attributes, relationships."""


class APIError(TaskError):
    """The API refused the request. Another attempt may succeed."""


class Unauthorized(APIError):
    """401: the token is missing or not valid."""


class Missing(APIError):
    """404: it does not exist, or the token has no access."""


class Conflict(APIError):
    """409: the state does not allow it."""


class Invalid(APIError):
    """422: the request is invalid."""


class Unanswered(TaskError):
    """The request may have been carried out or not."""


_ERRORS: Final[Mapping[int, type[APIError]]] = {
    401: Unauthorized,
    404: Missing,
    409: Conflict,
    422: Invalid,
}


RETRIES: Final = RetryPolicy(
    attempts=8,
    cap=15.0,
    statuses=_UNSURE,
    not_received=frozenset(),
    delay_headers=("Retry-After", "X-RateLimit-Reset"),
    max_header_delay=120.0,
    rate_limited=900.0,
)


@dataclass(frozen=True, slots=True)
class Document:
    """An answer: one resource or several, and what it includes."""

    content: Mapping[str, Any]

    @property
    def one(self) -> Resource:
        found: Resource = self.content["data"]
        return found

    @property
    def many(self) -> list[Resource]:
        return list(self.content["data"])

    @property
    def next_page(self) -> int | None:
        pagination = (self.content.get("meta") or {}).get("pagination") or {}
        return pagination.get("next-page")

    def included(self, kind: str, identity: str | None) -> Resource | None:
        """Return the included resource of that type and id."""
        for each in self.content.get("included") or ():
            if each["type"] == kind and each["id"] == identity:
                found: Resource = each
                return found
        return None


class HCP:
    """One address, one token. The token is sent to that address alone."""

    def __init__(
        self,
        http: aiohttp.ClientSession,
        address: str,
        token: str,
        *,
        retries: RetryPolicy = RETRIES,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.address = _checked(address)
        self._http = http
        self._secret = {"Authorization": f"Bearer {token.strip()}"}
        self._retries = retries
        self.sleep = sleep

    async def get(self, path: str, query: Mapping[str, str] | None = None) -> Document:
        """Read. Raises APIError; Unanswered after many tries."""
        return _document(await self._call("GET", path, query=query, repeatable=True))

    async def pages(
        self, path: str, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[Document]:
        """Yield a list, page by page."""
        number: int | None = 1
        while number is not None:
            paging = {"page[number]": str(number), "page[size]": str(PAGE)}
            page = await self.get(path, {**(query or {}), **paging})
            yield page
            number = page.next_page

    async def create(self, path: str, data: Resource) -> Document:
        """POST a resource, once: after Unanswered it may exist or not."""
        return _document(await self._call("POST", path, data=data, repeatable=False))

    async def act(self, path: str) -> None:
        """POST an action, once."""
        await self._call("POST", path, repeatable=False)

    async def update(self, path: str, data: Resource) -> Document:
        """PATCH a resource."""
        return _document(await self._call("PATCH", path, data=data, repeatable=True))

    async def delete(self, path: str) -> None:
        """DELETE; one that is gone already is Missing."""
        await self._call("DELETE", path, repeatable=True)

    async def upload(self, url: str, body: bytes) -> None:
        """PUT to a signed address, without the token. Raises Unanswered, APIError."""
        message = Message(
            method="PUT",
            url=url,
            headers={"Content-Type": "application/octet-stream"},
            body=body,
            timeout=120.0,
            exact=True,
        )
        reply = await self._send(message, repeatable=False, what="upload of the configuration")
        _judge(reply, "upload of the configuration")

    async def read(self, url: str) -> bytes:
        """GET from a signed address, without the token, such as that of a log."""
        message = Message(method="GET", url=url, timeout=60.0, exact=True)
        reply = await self._send(message, repeatable=True, what="reading of a log")
        _judge(reply, "reading of a log")
        return reply.body

    async def _call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        data: Resource | None = None,
        repeatable: bool,
    ) -> Reply:
        message = Message(
            method=method,
            url=f"{self.address}/api/v2{path}" + (f"?{urlencode(query)}" if query else ""),
            headers={"Content-Type": JSON_API, "Accept": JSON_API},
            secret_headers=self._secret,
            body=None if data is None else orjson.dumps({"data": data}),
        )
        what = f"{method} {path}"
        reply = await self._send(message, repeatable=repeatable, what=what)
        _judge(reply, what)
        return reply

    async def _send(self, message: Message, *, repeatable: bool, what: str) -> Reply:
        try:
            reply = await exchange_with_retries(
                self._http,
                message,
                self._retries,
                repeatable=repeatable,
                limit=LARGEST,
                sleep=self.sleep,
            )
        except BadAddress as error:
            raise TaskRejected(f"HCP Terraform, {what}: {error}") from error
        except ExchangeError as error:
            raise Unanswered(f"HCP Terraform, {what}: {error}") from error
        if reply.status in _UNSURE and not repeatable:
            raise Unanswered(f"HCP Terraform answered {reply.status} to {what}")
        return reply


def segment(text: str) -> str:
    """Return a text as one segment of a path."""
    return quote(text, safe="")


def relation(resource: Resource, name: str) -> Resource | None:
    """Return what a relationship points to: type and id."""
    entry = (resource.get("relationships") or {}).get(name) or {}
    data = entry.get("data")
    return data if isinstance(data, dict) else None


def _checked(address: str) -> str:
    """Raise TaskRejected for an address to which no token is sent."""
    try:
        url = URL(address)
        host = url.host or ""
    except ValueError as error:
        raise TaskRejected("infrastructure.terraform.address is no address") from error
    if url.scheme != "https" and not (url.scheme == "http" and host in _LOOPBACK):
        raise TaskRejected("infrastructure.terraform.address has to begin with https://")
    return address.rstrip("/")


def _judge(reply: Reply, what: str) -> None:
    if 200 <= reply.status < 300:
        return
    text = f"HCP Terraform answered {reply.status} to {what} with {describe_value(reply.body)}"
    if reply.status == 401:
        text += ": the token is not valid (any more); put a new one into its Secret"
    raise _ERRORS.get(reply.status, APIError)(text)


def _document(reply: Reply) -> Document:
    try:
        content = orjson.loads(reply.body)
    except orjson.JSONDecodeError as error:
        raise TaskError(
            "what answered is not HCP Terraform: look at infrastructure.terraform.address"
        ) from error
    if not isinstance(content, dict) or "data" not in content:
        raise TaskError("HCP Terraform answered without data: look at the address")
    return Document(content)
