"""What can go wrong with a request, as types.

An :class:`APIError` is an answer of the server and carries its Status. A :class:`TransportError` is
the lack of one; for a write that may have been carried out it is a :class:`WriteOutcomeUnknown`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import orjson

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupKind, GroupVersionKind, RESTMapping
from ctrlruntime.intake import describe_value


@dataclass(frozen=True, slots=True)
class StatusCause:
    """One entry of a Status's ``details.causes``."""

    field: str
    reason: str
    message: str


INSTALL: Final = (
    "install its CustomResourceDefinition: kubectl apply -f config/crd/bases, or in a test "
    "await envtest.install_crds(Kind)"
)
"""What to do about a kind that a server does not have."""


class APIError(Exception):
    """The server refused a request. ``reason`` and ``details`` are those of its Status."""

    default_code: ClassVar[int] = 500
    default_reason: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        *,
        code: int | None = None,
        reason: str | None = None,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = self.default_code if code is None else code
        self.reason = self.default_reason if reason is None else reason
        self.details: Mapping[str, Any] = details or {}
        self.retry_after = retry_after

    @property
    def causes(self) -> tuple[StatusCause, ...]:
        return tuple(
            StatusCause(*(str(cause.get(each) or "") for each in ("field", "reason", "message")))
            for cause in self.details.get("causes") or ()
            if isinstance(cause, dict)
        )

    def has_cause(self, reason: str) -> bool:
        return any(cause.reason == reason for cause in self.causes)

    def status(self) -> dict[str, Any]:
        """Return the Status object this error came from, or could have come from."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details:
            status["details"] = dict(self.details)
        return status

    def __str__(self) -> str:
        return f"{self.message} ({self.code}{' ' + self.reason if self.reason else ''})"


class BadRequest(APIError):
    """The request is malformed (400)."""

    default_code = 400
    default_reason = "BadRequest"


class Unauthorized(APIError):
    """The credentials are missing or refused (401)."""

    default_code = 401
    default_reason = "Unauthorized"


class Forbidden(APIError):
    """The user lacks the right (403)."""

    default_code = 403
    default_reason = "Forbidden"


class NotFound(APIError):
    """The object or the kind does not exist (404)."""

    default_code = 404
    default_reason = "NotFound"

    @property
    def is_of_kind(self) -> bool:
        """Whether not an object is missing but the whole kind, or its version."""
        return not self.details.get("name")

    def of_kind(self, mapping: RESTMapping) -> "NotFound":
        """Return the same error with the kind that the server does not serve, and what to do about it."""
        gvk = mapping.gvk
        fix = "check its version" if gvk in BUILTIN else INSTALL
        message = f"the server does not serve {mapping.resource} in {gvk.api_version}; {fix}"
        return NotFound(message, code=self.code, reason=self.reason, details=self.details)

    @classmethod
    def of(cls, gvk: GroupVersionKind, plural: str, name: str) -> "NotFound":
        """Return the error a server would have given for an object that is not there."""
        resource = f"{plural}.{gvk.group}" if gvk.group else plural
        return cls(
            f'{resource} "{name}" not found',
            details={"name": name, "group": gvk.group, "kind": plural},
        )


class MethodNotAllowed(APIError):
    """The resource has no such verb (405)."""

    default_code = 405
    default_reason = "MethodNotAllowed"


class NotAcceptable(APIError):
    """The server cannot answer in the requested form (406)."""

    default_code = 406
    default_reason = "NotAcceptable"


class AlreadyExists(APIError):
    """An object of that name exists (409)."""

    default_code = 409
    default_reason = "AlreadyExists"


class Conflict(APIError):
    """The object changed since it was read, or another manager owns a field (``is_field_conflict``)."""

    default_code = 409
    default_reason = "Conflict"

    @property
    def is_field_conflict(self) -> bool:
        """Whether an apply met fields of other managers; ``causes`` name them."""
        return self.has_cause("FieldManagerConflict")


class Gone(APIError):
    """What was requested is no longer there (410)."""

    default_code = 410
    default_reason = "Gone"


class Expired(Gone):
    """The resourceVersion or continue token is too old; list anew."""

    default_reason = "Expired"


class RequestEntityTooLarge(APIError):
    """The body exceeds the server's limit (413)."""

    default_code = 413
    default_reason = "RequestEntityTooLarge"


class UnsupportedMediaType(APIError):
    """The server does not take that form of patch (415)."""

    default_code = 415
    default_reason = "UnsupportedMediaType"


class Invalid(APIError):
    """The object was refused; ``causes`` name field, reason and message."""

    default_code = 422
    default_reason = "Invalid"


class TooManyRequests(APIError):
    """The server, or a disruption budget, refuses for now (429)."""

    default_code = 429
    default_reason = "TooManyRequests"


class InternalError(APIError):
    """The server, or a webhook it called, failed (500)."""

    default_code = 500
    default_reason = "InternalError"


class ServerTimeout(APIError):
    """The server gave up within its own time limit; the request may have been carried out."""

    default_code = 500
    default_reason = "ServerTimeout"


class ServiceUnavailable(APIError):
    """The server, or an aggregated one, is not available (503)."""

    default_code = 503
    default_reason = "ServiceUnavailable"


class Timeout(ServerTimeout):
    """The server gave up waiting (504)."""

    default_code = 504
    default_reason = "Timeout"

    @property
    def is_too_large_resource_version(self) -> bool:
        """The server has not seen the resourceVersion that was asked for."""
        return (
            self.has_cause("ResourceVersionTooLarge")
            or "Too large resource version" in self.message
        )


class NoKindMatch(LookupError):
    """The server has no such kind (now)."""

    def __init__(self, kind: GroupVersionKind | GroupKind) -> None:
        super().__init__(f"the server has no kind {kind}; {INSTALL}, or check group and version")
        self.kind = kind


class TransportError(Exception):
    """No answer came. ``sent`` is False when the request certainly did not reach the server."""

    def __init__(self, message: str, *, sent: bool = True) -> None:
        super().__init__(message)
        self.sent = sent


class WriteOutcomeUnknown(TransportError):
    """A write got no answer; the server may have carried it out. Read the object before acting on it."""


_CLASSES: tuple[type[APIError], ...] = (
    BadRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    NotAcceptable,
    AlreadyExists,
    Conflict,
    Gone,
    Expired,
    RequestEntityTooLarge,
    UnsupportedMediaType,
    Invalid,
    TooManyRequests,
    InternalError,
    ServerTimeout,
    ServiceUnavailable,
    Timeout,
)
_BY_REASON: dict[str, type[APIError]] = {cls.default_reason: cls for cls in _CLASSES}
_BY_CODE: dict[int, type[APIError]] = {
    cls.default_code: cls for cls in _CLASSES if cls not in (AlreadyExists, Expired, ServerTimeout)
}


def error_of_status(
    status: Mapping[str, Any], *, code: int | None = None, retry_after: float | None = None
) -> APIError:
    """Return the error for a Status object, typed by its reason or else by its code; what is of another type is left out."""
    status_code, reason, details = status.get("code"), status.get("reason"), status.get("details")
    number = status_code if isinstance(status_code, int) else (code or 500)
    reason = reason if isinstance(reason, str) else ""
    cls = _BY_REASON.get(reason) or _BY_CODE.get(number, APIError)
    details = details if isinstance(details, dict) else {}
    seconds = details.get("retryAfterSeconds")
    if retry_after is None and isinstance(seconds, int | float) and seconds:
        retry_after = float(seconds)
    message = status.get("message")
    message = message if message and isinstance(message, str) else f"the server answered {number}"
    return cls(message, code=number, reason=reason, details=details, retry_after=retry_after)


def error_of_response(
    code: int, body: bytes, *, retry_after: float | None = None, foreign: bool = False
) -> APIError:
    """Return the error for an answer of 400 or more, whether or not its body is a Status.

    Of a `foreign` server, which may be any server, only a Status is quoted.
    """
    try:
        status = orjson.loads(body)
    except ValueError:
        status = None
    if isinstance(status, dict) and status.get("kind") == "Status":
        return error_of_status(status, code=code, retry_after=retry_after)
    if foreign:
        text = f"the server answered {code} with {describe_value(body)}, and no Status"
    else:
        text = body[:500].decode("utf-8", "replace").strip() or f"the server answered {code}"
    cls = _BY_CODE.get(code, APIError)
    return cls(text, code=code, retry_after=retry_after)
