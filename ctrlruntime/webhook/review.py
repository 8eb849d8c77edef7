"""One request as a defaulter or a validator sees it: typed objects, findings, warnings."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic

import orjson
from pydantic import ValidationError
from typing_extensions import TypeVar

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.resource import Resource
from ctrlruntime.client.errors import APIError
from ctrlruntime.webhook.admission import (
    AdmissionRequest,
    AdmissionResponse,
    UserInfo,
    denied,
    refused,
)
from ctrlruntime.webhook.findings import FieldErrorList, findings_of, invalid_object

__all__ = ["Codec", "Review", "Step", "refusal", "run_steps"]

T = TypeVar("T", default=Any)


class Review(FieldErrorList, Generic[T]):
    """What is asked, and where the answer is collected.

    ``old`` is the object as it is: None on CREATE. On DELETE the object handed to the validator is
    the one that goes.
    """

    def __init__(self, request: AdmissionRequest, old: T | None) -> None:
        super().__init__()
        self.request = request
        self.old = old

    def check(self) -> None:
        """Raise Invalid if anything was found."""
        if self.errors:
            raise invalid_object(self.request.gvk, self.request.name, self.errors)

    @property
    def operation(self) -> str:
        return self.request.operation

    @property
    def user(self) -> UserInfo:
        return self.request.user_info

    @property
    def dry_run(self) -> bool:
        """Whether nothing will be stored: side effects must not happen then."""
        return bool(self.request.dry_run)


Step = Callable[[Any, Review[Any]], Awaitable[None] | None]
"""A defaulter or validator: a function, or a method of the model, of the object and its review."""


async def run_steps(steps: tuple[Step, ...], obj: object, review: Review[Any]) -> None:
    """Call every step. Raises what a step raises, and then calls no further one."""
    for step in steps:
        result = step(obj, review)
        if inspect.isawaitable(result):
            await result


MOST_ITEMS: Final = 50_000
"""Most values of an object that is decoded to a model, which takes up to a microsecond for each."""


def has_more_items(raw: bytes, most: int) -> bool:
    """Whether a JSON document has more than so many elements and fields, counted without decoding models."""
    if raw.count(b",") + raw.count(b"{") + raw.count(b"[") <= most:
        return False  # each value follows one of these; more of them may stand in texts
    try:
        count, waiting = 0, [orjson.loads(raw)]
    except orjson.JSONDecodeError:
        return False  # decoding says what is wrong
    while waiting and count <= most:
        value = waiting.pop()
        if isinstance(value, dict | list):
            count += len(value)
            if count <= most:
                waiting.extend(value.values() if isinstance(value, dict) else value)
    return count > most


class Codec:
    """Objects of one kind: typed if there is a class, otherwise dicts."""

    def __init__(self, kind: type[Resource[Any, Any]] | None) -> None:
        self._kind = kind

    def decode(self, request: AdmissionRequest, raw: bytes) -> Resource[Any, Any] | Manifest:
        """Raise Invalid, naming each field that is wrong."""
        if self._kind is None:
            manifest: Manifest = orjson.loads(raw)
            return manifest
        if has_more_items(raw, MOST_ITEMS):
            found = FieldErrorList()
            found.invalid("", f"{len(raw)} bytes", f"the object has more than {MOST_ITEMS} values")
            raise invalid_object(request.gvk, request.name, found.errors)
        try:
            return self._kind.from_manifest(raw)
        except ValidationError as error:
            raise invalid(request, error) from None

    def decode_old(self, request: AdmissionRequest) -> Resource[Any, Any] | Manifest | None:
        """Return the object as it is; None if there is none or, from an older schema, it is unreadable."""
        raw = bytes(request.old_object)
        if raw == b"null":
            return None
        try:
            return self.decode(request, raw)
        except APIError:
            return None

    def wire(self, obj: Resource[Any, Any] | Manifest) -> Manifest:
        return obj.to_manifest() if isinstance(obj, Resource) else obj


def invalid(request: AdmissionRequest, error: ValidationError) -> APIError:
    """Return what is wrong with the object of a request, as a 422."""
    return invalid_object(request.gvk, request.name, findings_of(error))


def refusal(review: Review[Any], error: APIError | ValueError) -> AdmissionResponse:
    """Return the answer to what a step raised: an APIError as it is, another ValueError as a 403."""
    if isinstance(error, ValidationError):
        error = invalid(review.request, error)
    if isinstance(error, APIError):
        return refused(error, *review.warnings)
    return denied(str(error), *review.warnings)
