"""Errors of the API server, each carrying the `Status` body the real one answers with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

OPTIMISTIC_LOCK: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)


@dataclass(frozen=True, slots=True)
class FieldError:
    """One finding of a validation: field path, machine-readable type and full message."""

    field: str
    reason: str
    message: str

    def text(self) -> str:
        return f"{self.field}: {self.message}"

    def cause(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.message, "field": self.field}


def required(field: str, detail: str = "") -> FieldError:
    text = f"Required value: {detail}" if detail else "Required value"
    return FieldError(field, "FieldValueRequired", text)


def bad_value(field: str, value: object, detail: str) -> FieldError:
    return FieldError(field, "FieldValueInvalid", f"Invalid value: {show(value)}: {detail}")


def not_supported(field: str, value: object, allowed: Sequence[str]) -> FieldError:
    listed = ", ".join(f'"{item}"' for item in allowed)
    text = f"Unsupported value: {show(value)}: supported values: {listed}"
    return FieldError(field, "FieldValueNotSupported", text)


def forbidden_field(field: str, detail: str) -> FieldError:
    return FieldError(field, "FieldValueForbidden", f"Forbidden: {detail}")


def duplicate(field: str, value: object) -> FieldError:
    return FieldError(field, "FieldValueDuplicate", f"Duplicate value: {show(value)}")


def too_long(field: str, limit: int) -> FieldError:
    return FieldError(field, "FieldValueTooLong", f"Too long: may not be more than {limit} bytes")


def show(value: object) -> str:
    """Return a value as Go's field errors print it."""
    if value is None:
        return "null"
    return orjson.dumps(value).decode()


class StatusError(Exception):
    """A request that ends in a `Status` object of kind Failure."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.list_metadata: dict[str, Any] = {}

    def status(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": self.list_metadata,
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            body["reason"] = self.reason
        if self.details is not None:
            body["details"] = self.details
        body["code"] = self.code
        return body

    @property
    def retry_after(self) -> int | None:
        return None if self.details is None else self.details.get("retryAfterSeconds")


def qualified(group: str, resource: str) -> str:
    return f"{resource}.{group}" if group else resource


def _details(group: str, kind: str, name: str = "", **more: object) -> dict[str, Any]:
    details: dict[str, Any] = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    details.update(more)
    return details


def not_found(group: str, resource: str, name: str) -> StatusError:
    text = f'{qualified(group, resource)} "{name}" not found'
    return StatusError(404, "NotFound", text, _details(group, resource, name))


def unknown_path() -> StatusError:
    text = "the server could not find the requested resource"
    return StatusError(404, "NotFound", text, {})


class PageNotFound(StatusError):
    """A path that no group serves: answered in plain text."""

    def __init__(self) -> None:
        super().__init__(404, "NotFound", "404 page not found")


def bad_number(value: str) -> StatusError:
    """Return an integer option that is none."""
    return bad_request(f'strconv.ParseInt: parsing "{value}": invalid syntax')


def already_exists(group: str, resource: str, name: str) -> StatusError:
    text = f'{qualified(group, resource)} "{name}" already exists'
    return StatusError(409, "AlreadyExists", text, _details(group, resource, name))


def being_deleted(group: str, resource: str, name: str) -> StatusError:
    """Return the error for a create whose name is still taken by an object on its way out."""
    error = already_exists(group, resource, name)
    error.message = f"object is being deleted: {error.message}"
    return error


def generate_name_exhausted(group: str, resource: str, name: str) -> StatusError:
    text = f'{qualified(group, resource)} "{name}" already exists, the server was not able to generate a unique name for the object'
    details = _details(group, resource, name, retryAfterSeconds=1)
    return StatusError(409, "AlreadyExists", text, details)


def conflict(group: str, resource: str, name: str, why: str = OPTIMISTIC_LOCK) -> StatusError:
    text = f'Operation cannot be fulfilled on {qualified(group, resource)} "{name}": {why}'
    return StatusError(409, "Conflict", text, _details(group, resource, name))


def apply_conflict(message: str, causes: list[dict[str, str]]) -> StatusError:
    """Server-side apply met fields of other managers."""
    return StatusError(409, "Conflict", message, {"causes": causes})


def invalid(group: str, kind: str, name: str, errors: Iterable[FieldError]) -> StatusError:
    found = list(errors)
    texts = list(dict.fromkeys(error.text() for error in found))
    listed = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    details = _details(group, kind, name, causes=[error.cause() for error in found])
    text = f'{qualified(group, kind)} "{name}" is invalid: {listed}'
    return StatusError(422, "Invalid", text, details)


def bad_request(message: str) -> StatusError:
    return StatusError(400, "BadRequest", message)


def forbidden(group: str, resource: str, name: str, why: str, **more: object) -> StatusError:
    head = qualified(group, resource)
    text = f'{head} "{name}" is forbidden: {why}' if name else f"{head} is forbidden: {why}"
    return StatusError(403, "Forbidden", text, _details(group, resource, name, **more))


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def expired(message: str) -> StatusError:
    return StatusError(410, "Expired", message)


def too_old(wanted: int, oldest: int) -> StatusError:
    return expired(f"too old resource version: {wanted} ({oldest})")


def too_large_version(wanted: int, current: int) -> StatusError:
    details = {
        "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
        "retryAfterSeconds": 1,
    }
    text = f"Timeout: Too large resource version: {wanted}, current: {current}"
    return StatusError(504, "Timeout", text, details)


def method_not_allowed() -> StatusError:
    text = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", text, {})


def not_acceptable(accepted: str) -> StatusError:
    text = f"only the following media types are accepted: {accepted}"
    return StatusError(406, "NotAcceptable", text)


def unsupported_media_type(accepted: str, given: str) -> StatusError:
    text = f"the body of the request was in an unknown format - accepted media types include: {accepted}"
    del given
    return StatusError(415, "UnsupportedMediaType", text)


def too_large(message: str) -> StatusError:
    return StatusError(413, "RequestEntityTooLarge", message)


def internal(message: str) -> StatusError:
    return StatusError(
        500,
        "InternalError",
        f"Internal error occurred: {message}",
        {"causes": [{"message": message}]},
    )


def too_many_requests(message: str, retry_after: int) -> StatusError:
    details = {"retryAfterSeconds": retry_after} if retry_after else {}
    return StatusError(429, "TooManyRequests", message, details)
