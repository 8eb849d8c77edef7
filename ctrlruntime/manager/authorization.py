"""Who may read what a manager serves: bearer tokens and rights as the API server reports them."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import APIError, TransportError
from ctrlruntime.clock import monotonic
from ctrlruntime.manager.http_message import ServerRequest, ServerResponse
from ctrlruntime.queue.limiters import Bucket

TOKEN_REVIEW = RESTMapping(
    GroupVersionKind("authentication.k8s.io", "v1", "TokenReview"), "tokenreviews", False
)
ACCESS_REVIEW = RESTMapping(
    GroupVersionKind("authorization.k8s.io", "v1", "SubjectAccessReview"),
    "subjectaccessreviews",
    False,
)
TOKEN_SECONDS = 60.0
ALLOWED_SECONDS = 300.0
DENIED_SECONDS = 30.0
MOST = 4096
"""Answers that are remembered; the oldest are forgotten first."""

LONGEST_TOKEN = 64 * 1024
"""Characters; tokens are printable ASCII (RFC 6750), and anything else is not reviewed."""
UNKNOWN_TOKENS_PER_SECOND = 2.0
UNKNOWN_TOKENS_AT_ONCE = 20
"""Tokens that are not remembered lead to so many TokenReviews, whatever their senders."""

Value = TypeVar("Value")


class TooManyUnknownTokens(Exception):
    """More unknown tokens came than are reviewed."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A user as a TokenReview tells."""

    username: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @classmethod
    def of(cls, user: Mapping[str, Any]) -> Caller:
        extra = tuple((key, tuple(value)) for key, value in (user.get("extra") or {}).items())
        return cls(
            user.get("username", ""), user.get("uid", ""), tuple(user.get("groups") or ()), extra
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What a user wants: a verb on a path, or on objects of a kind."""

    verb: str
    path: str = ""
    """The path of a request that is for no object; empty for objects."""
    group: str = ""
    resource: str = ""
    """The plural name of the kind."""
    subresource: str = ""
    namespace: str = ""
    """Empty for all namespaces, and for kinds without."""
    name: str = ""

    def attributes(self) -> dict[str, dict[str, str]]:
        """Return the part of a SubjectAccessReview's spec that describes it."""
        if self.path:
            return {"nonResourceAttributes": {"path": self.path, "verb": self.verb}}
        wanted = {
            "verb": self.verb,
            "group": self.group,
            "resource": self.resource,
            "subresource": self.subresource,
            "namespace": self.namespace,
            "name": self.name,
        }
        return {"resourceAttributes": {key: value for key, value in wanted.items() if value}}


class AccessReviews:
    """Users and their rights as the API server reports them (TokenReview, SubjectAccessReview).

    Tokens are remembered for a minute, rights for five, refusals for 30 seconds, as upstream; failures
    to ask are not. Tokens that are not remembered are reviewed at a limited rate. ``connect`` makes the client at the first request. Methods raise APIError,
    TransportError and TimeoutError.
    """

    def __init__(
        self, connect: Callable[[], Client], clock: Callable[[], float] = monotonic
    ) -> None:
        self._connect = connect
        self._client: Client | None = None
        self._callers: _Remembered[Caller | None] = _Remembered(clock)
        self._rights: _Remembered[bool] = _Remembered(clock)
        self._reviewed = Bucket(UNKNOWN_TOKENS_PER_SECOND, UNKNOWN_TOKENS_AT_ONCE, clock)

    async def close(self) -> None:
        """Close the client."""
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def caller(self, token: str) -> Caller | None:
        """Return whose bearer token this is; None for one that is not valid. Raises TooManyUnknownTokens."""
        if not (token.isascii() and token.isprintable() and 0 < len(token) <= LONGEST_TOKEN):
            return None
        key = hashlib.sha256(token.encode()).hexdigest()
        known = self._callers.get(key)
        if known is not None:
            return known[0]
        if self._callers.last(key) is None and not self._reviewed.take():
            raise TooManyUnknownTokens
        status = await self._review(TOKEN_REVIEW, {"token": token})
        user = status.get("user") if status.get("authenticated") else None
        caller = Caller.of(user) if user else None
        self._callers.put(key, caller, TOKEN_SECONDS)
        return caller

    async def allowed(self, caller: Caller, access: Access) -> bool:
        """Return whether a user may do something."""
        key = (caller, access)
        known = self._rights.get(key)
        if known is not None:
            return known[0]
        spec = {
            "user": caller.username,
            "uid": caller.uid,
            "groups": list(caller.groups),
            "extra": {name: list(values) for name, values in caller.extra},
            **access.attributes(),
        }
        status = await self._review(ACCESS_REVIEW, spec)
        allowed = bool(status.get("allowed"))
        self._rights.put(key, allowed, ALLOWED_SECONDS if allowed else DENIED_SECONDS)
        return allowed

    async def _review(self, kind: RESTMapping, spec: dict[str, Any]) -> Mapping[str, Any]:
        if self._client is None:
            self._client = self._connect()
        review = {"apiVersion": kind.gvk.api_version, "kind": kind.gvk.kind, "spec": spec}
        answer: dict[str, Any] = await self._client.create(review, kind=kind)
        return answer.get("status") or {}


def bearer_token(authorization: str) -> str:
    """Return the token of an ``Authorization`` header; empty if it has none."""
    scheme, _, token = authorization.partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


class RequestFilter:
    """Accepts users whom the API server authenticates and allows ``get`` on the path of the request.

    401 without a valid token, 403 without the right, 500 when it cannot be asked.
    """

    def __init__(
        self,
        connect: Callable[[], Client],
        logger: FilteringBoundLogger,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._reviews = AccessReviews(connect, clock)
        self._logger = logger

    async def close(self) -> None:
        await self._reviews.close()

    async def refusal(self, request: ServerRequest) -> ServerResponse | None:
        """Return what a request that is not allowed is answered with, None for one that is."""
        token = bearer_token(request.headers.get("authorization", ""))
        if not token:
            return ServerResponse.text("Unauthorized", 401)
        access = Access(verb=request.method.lower(), path=request.path)
        try:
            caller = await self._reviews.caller(token)
            if caller is None:
                return ServerResponse.text("Unauthorized", 401)
            allowed = await self._reviews.allowed(caller, access)
        except TooManyUnknownTokens:
            return ServerResponse.text("Too many unknown tokens; try again in a second", 429)
        except (APIError, TransportError, TimeoutError) as error:
            self._logger.error("Request not checked", path=request.path, error=str(error))
            return ServerResponse.text("Authentication or authorization failed", 500)
        if not allowed:
            self._logger.debug("Request denied", path=request.path, user=caller.username)
            return ServerResponse.text("Authorization denied", 403)
        return None


class _Remembered(Generic[Value]):
    """Answers with the time until which they hold."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._known: OrderedDict[Any, tuple[float, Value]] = OrderedDict()

    def get(self, key: object) -> tuple[Value] | None:
        """In a tuple, as the answer may be None."""
        until, value = self._known.get(key, (float("-inf"), None))
        return (value,) if until > self._clock() else None  # type: ignore[return-value]

    def last(self, key: object) -> Value | None:
        """Return the last answer, whether or not it still holds."""
        return self._known.get(key, (0.0, None))[1]

    def put(self, key: object, value: Value, seconds: float) -> None:
        self._known.pop(key, None)
        self._known[key] = (self._clock() + seconds, value)
        while len(self._known) > MOST:
            self._known.popitem(last=False)
