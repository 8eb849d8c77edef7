"""AdmissionReview on the wire: requests as they come, responses as they go, in v1 and v1beta1."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import msgspec
import orjson

from ctrlruntime.api.kinds import GroupVersionKind, Manifest
from ctrlruntime.client.errors import APIError, Forbidden
from ctrlruntime.json import Json, apply_json_patch

__all__ = [
    "AdmissionRequest",
    "AdmissionResponse",
    "Chain",
    "Handler",
    "ReviewError",
    "UserInfo",
    "allowed",
    "decode_review",
    "denied",
    "encode_review",
    "refused",
]

GROUP = "admission.k8s.io"
VERSIONS = ("v1", "v1beta1")
NULL = msgspec.Raw(b"null")


T = TypeVar("T")


class ReviewError(ValueError):
    """What was sent is not an AdmissionReview with a request."""


class UserInfo(msgspec.Struct, rename="camel", frozen=True):
    """Who makes the request."""

    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class KindName(msgspec.Struct, frozen=True):
    """A kind as a review names it."""

    group: str = ""
    version: str = ""
    kind: str = ""


class ResourceName(msgspec.Struct, frozen=True):
    """A resource as a review names it."""

    group: str = ""
    version: str = ""
    resource: str = ""


class _Metadata(msgspec.Struct, rename="camel", frozen=True):
    deletion_timestamp: str | None = None


class _Object(msgspec.Struct, frozen=True):
    metadata: _Metadata | None = None


_GOING = msgspec.json.Decoder(_Object | None)


class AdmissionRequest(msgspec.Struct, rename="camel", frozen=True):
    """One request under admission; the objects are still JSON.

    ``operation`` is CREATE, UPDATE, DELETE or CONNECT. ``request_kind`` is what the user sent,
    where a webhook with the match policy Equivalent gets it converted to ``kind``.
    """

    uid: str = ""
    kind: KindName = KindName()
    resource: ResourceName = ResourceName()
    sub_resource: str = ""
    request_kind: KindName | None = None
    name: str = ""
    namespace: str = ""
    operation: str = ""
    user_info: UserInfo = UserInfo()
    object: msgspec.Raw = NULL
    old_object: msgspec.Raw = NULL
    options: msgspec.Raw = NULL
    dry_run: bool | None = None

    @property
    def gvk(self) -> GroupVersionKind:
        return GroupVersionKind(self.kind.group, self.kind.version, self.kind.kind)

    @property
    def is_going(self) -> bool:
        """Whether the object is being deleted, and waits for its finalizers. Its other fields are not decoded."""
        try:
            found = _GOING.decode(self.object)
        except (msgspec.DecodeError, RecursionError):
            metadata = (self.manifest() or {}).get("metadata") or {}
            return bool(metadata.get("deletionTimestamp"))
        return bool(found and found.metadata and found.metadata.deletion_timestamp)

    def manifest(self) -> Manifest | None:
        """Return the object as it will be; None on a deletion."""
        return _manifest(self.object)

    def old_manifest(self) -> Manifest | None:
        """Return the object as it is; None on a creation."""
        return _manifest(self.old_object)


def _manifest(raw: msgspec.Raw) -> Manifest | None:
    """Raise ReviewError for what is no object, as an API server never sends it."""
    try:
        value: Json = orjson.loads(bytes(raw))
    except orjson.JSONDecodeError as error:
        raise ReviewError(f"the object of the review cannot be read: {error.msg}") from None
    if value is not None and not (
        isinstance(value, dict) and isinstance(value.get("metadata") or {}, dict)
    ):
        raise ReviewError("the object of the review is no object with metadata")
    return value


class _Review(msgspec.Struct, rename="camel", frozen=True):
    api_version: str = ""
    kind: str = ""
    request: AdmissionRequest | None = None


_DECODER = msgspec.json.Decoder(_Review)


def decode_body(decoder: msgspec.json.Decoder[T], body: bytes, what: str) -> T:
    """Return the review of a body. Raises ReviewError; ``what`` names it in the message."""
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReviewError(f"the body is not {what}: {error}") from None
    except RecursionError:
        raise ReviewError(f"the body is not {what}: it is nested too deep") from None


def decode_review(body: bytes) -> tuple[str, AdmissionRequest]:
    """Return API version and request of a review. Raises ReviewError, saying what is wrong."""
    review = decode_body(_DECODER, body, "an AdmissionReview")
    group, _, version = review.api_version.partition("/")
    if review.kind not in ("AdmissionReview", "") or (
        review.api_version and (group != GROUP or version not in VERSIONS)
    ):
        raise ReviewError(
            f"the body is a {review.kind} of {review.api_version}, not an AdmissionReview "
            f"of {GROUP}/v1 or {GROUP}/v1beta1"
        )
    if review.request is None:
        raise ReviewError("the AdmissionReview has no request")
    return review.api_version or f"{GROUP}/v1", review.request


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionResponse:
    """The answer to one request. ``patch`` is a list of JSON patch operations."""

    allowed: bool
    status: Mapping[str, Any] | None = None
    patch: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = field(default_factory=dict)

    def warned(self, *warnings: str) -> AdmissionResponse:
        """Return the same with these warnings in front."""
        return replace(self, warnings=(*warnings, *self.warnings))


class Handler(Protocol):
    """Answers admission requests. An exception that leaves it is answered with 500."""

    async def handle(self, request: AdmissionRequest, /) -> AdmissionResponse: ...


def allowed(*warnings: str) -> AdmissionResponse:
    """Yes."""
    return AdmissionResponse(allowed=True, warnings=warnings)


def refused(error: APIError, *warnings: str) -> AdmissionResponse:
    """No, with the status of ``error``: its code, reason, message and causes reach the user."""
    return AdmissionResponse(allowed=False, status=error.status(), warnings=warnings)


def denied(message: str, *warnings: str) -> AdmissionResponse:
    """No: 403 Forbidden."""
    return refused(Forbidden(message), *warnings)


def encode_review(api_version: str, uid: str, response: AdmissionResponse) -> bytes:
    """Return the review that answers, in the version that was asked in."""
    answer: dict[str, Any] = {"uid": uid, "allowed": response.allowed}
    if response.status is not None:
        answer["status"] = response.status
    if response.patch:
        answer["patchType"] = "JSONPatch"
        answer["patch"] = base64.b64encode(orjson.dumps(response.patch)).decode()
    if response.warnings:
        answer["warnings"] = response.warnings
    if response.audit_annotations:
        answer["auditAnnotations"] = dict(response.audit_annotations)
    return orjson.dumps({"apiVersion": api_version, "kind": "AdmissionReview", "response": answer})


class Chain:
    """Several handlers at one path, one after the other; each sees the object as the ones before have changed it.

    Patches are joined in order, and so are warnings. The first denial is the answer, with the
    warnings of those before it.
    """

    def __init__(self, *handlers: Handler) -> None:
        self._handlers = handlers

    async def handle(self, request: AdmissionRequest) -> AdmissionResponse:
        patch: list[Mapping[str, Any]] = []
        warnings: list[str] = []
        annotations: dict[str, str] = {}
        for handler in self._handlers:
            response = await handler.handle(request)
            warnings += response.warnings
            annotations |= response.audit_annotations
            if not response.allowed:
                return replace(
                    response, warnings=tuple(warnings), patch=(), audit_annotations=annotations
                )
            if response.patch:
                patch += response.patch
                request = _changed(request, response.patch)
        return AdmissionResponse(
            allowed=True,
            patch=tuple(patch),
            warnings=tuple(warnings),
            audit_annotations=annotations,
        )


def _changed(request: AdmissionRequest, patch: Sequence[Mapping[str, Any]]) -> AdmissionRequest:
    changed = orjson.dumps(apply_json_patch(orjson.loads(bytes(request.object)), patch))
    return msgspec.structs.replace(request, object=msgspec.Raw(changed))
