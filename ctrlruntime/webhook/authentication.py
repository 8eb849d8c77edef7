"""A webhook that tells the API server who a bearer token belongs to (TokenReview)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson
from structlog.typing import FilteringBoundLogger

from ctrlruntime.webhook.admission import ReviewError, UserInfo, decode_body
from ctrlruntime.webhook.metrics import WebhookMetrics

__all__ = ["LARGEST_TOKEN_REVIEW", "Authenticate", "Authentication", "TokenReviews"]

GROUP = "authentication.k8s.io"
VERSIONS = ("v1", "v1beta1")
LARGEST_TOKEN_REVIEW = 1024 * 1024
"""Bytes of a request, as upstream."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Authentication:
    """Whose token it is; without a user, invalid. ``error`` is the reason for the server."""

    user: UserInfo | None = None
    audiences: tuple[str, ...] = ()
    error: str = ""


Authenticate = Callable[[str, tuple[str, ...]], Awaitable[Authentication]]
"""Called with the token and the audiences of the server."""


class _Spec(msgspec.Struct, frozen=True):
    token: str = ""
    audiences: tuple[str, ...] = ()


class _Review(msgspec.Struct, rename="camel", frozen=True):
    api_version: str = ""
    kind: str = ""
    spec: _Spec = _Spec()


_DECODER = msgspec.json.Decoder(_Review)


class TokenReviews:
    """Answers token reviews, in v1 and v1beta1, with the result of ``authenticate``.

    An exception is a 500 and counted like one of an admission handler; a token is never logged.
    """

    def __init__(
        self, authenticate: Authenticate, metrics: WebhookMetrics, logger: FilteringBoundLogger
    ) -> None:
        self._authenticate = authenticate
        self._metrics = metrics
        self._logger = logger

    async def answer(self, body: bytes) -> tuple[int, bytes]:
        """HTTP status and body."""
        try:
            review = _decode(body)
        except ReviewError as error:
            return 400, _encode(f"{GROUP}/v1", Authentication(error=str(error)))
        try:
            found = await self._authenticate(review.spec.token, review.spec.audiences)
        except Exception as error:  # noqa: BLE001 - the server lives, and the caller is told
            self._metrics.panics.inc()
            self._logger.error("Token review failed", error=type(error).__name__)
            failure = Authentication(error="the webhook failed; its log has the reason")
            return 500, _encode(review.api_version, failure)
        return 200, _encode(review.api_version, found)


def _decode(body: bytes) -> _Review:
    """Raise ReviewError, without the token."""
    review = decode_body(_DECODER, body, "a TokenReview")
    group, _, version = review.api_version.partition("/")
    if review.kind != "TokenReview" or group != GROUP or version not in VERSIONS:
        raise ReviewError(f"the body is a {review.kind} of {review.api_version}, not a TokenReview")
    if not review.spec.token:
        raise ReviewError("the TokenReview has no token")
    return review


def _encode(api_version: str, found: Authentication) -> bytes:
    status: dict[str, Any] = {"authenticated": found.user is not None}
    if found.user is not None:
        status["user"] = {
            key: value for key, value in msgspec.to_builtins(found.user).items() if value
        }
    if found.audiences:
        status["audiences"] = found.audiences
    if found.error:
        status["error"] = found.error
    return orjson.dumps({"apiVersion": api_version, "kind": "TokenReview", "status": status})
