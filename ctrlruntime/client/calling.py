"""How a client makes a call: defaults, interceptors, the transport; and how answers are decoded."""

import copy
from collections.abc import Awaitable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Self, cast

import msgspec
import orjson

from ctrlruntime.api.kinds import GroupKind, GroupVersionKind, Manifest, RESTMapping
from ctrlruntime.api.resource import KindRef, Resource, gvk_of
from ctrlruntime.client.call import (
    METHODS,
    Call,
    Defaults,
    Execute,
    FieldValidation,
    Interceptor,
    Verb,
)
from ctrlruntime.client.errors import NotFound
from ctrlruntime.client.mapper import RESTMapper
from ctrlruntime.client.transport import JSON, Response, Transport
from ctrlruntime.client.unreadable import no_object, reading
from ctrlruntime.intake import describe_value
from ctrlruntime.intake.json_documents import is_deeper
from ctrlruntime.intake.limits import OBJECT_DEPTH, LimitExceeded
from ctrlruntime.intake.shallow import split_members, split_members_or_fail

METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_ONLY_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class _Version(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    uid: str = ""
    resource_version: str = ""


class _Versioned(msgspec.Struct, gc=False):
    metadata: _Version = _Version()


_version_decoder = msgspec.json.Decoder(_Versioned)


class Caller:
    """What reads and writes have in common."""

    def __init__(
        self,
        transport: Transport,
        *,
        mapper: RESTMapper | None = None,
        defaults: Defaults | None = None,
        interceptors: tuple[Interceptor, ...] = (),
    ) -> None:
        self.transport = transport
        self.mapper = mapper or RESTMapper(transport)
        self.defaults = defaults or Defaults()
        self.interceptors = interceptors

    # -- clients with other defaults -------------------------------------------------------

    def namespaced(self, namespace: str) -> Self:
        """Call on namespaced kinds go to this namespace; naming another raises ValueError."""
        return self._with(replace(self.defaults, namespace=namespace))

    def dry_run(self) -> Self:
        """Return a client whose writes the server validates and does not carry out."""
        return self._with(replace(self.defaults, dry_run=True))

    def field_owner(self, field_manager: str) -> Self:
        return self._with(replace(self.defaults, field_manager=field_manager))

    def field_validation(self, validation: FieldValidation) -> Self:
        """How the server treats unknown and duplicate fields in creates, updates and patches."""
        return self._with(replace(self.defaults, field_validation=validation))

    def impersonating(self, user: str) -> Self:
        """Return a client whose calls are made as another user, which needs the right to ``impersonate`` them.

        A service account is ``system:serviceaccount:<namespace>:<name>``; the server adds its groups.
        """

        async def impersonate(call: Call, execute: Execute) -> Response:
            return await execute(replace(call, headers={**call.headers, "Impersonate-User": user}))

        return self.intercepted(impersonate)

    def intercepted(self, interceptor: Interceptor) -> Self:
        """Return a client whose interceptor sees every call before those added earlier do."""
        other = copy.copy(self)
        other.interceptors = (interceptor, *self.interceptors)
        return other

    def _with(self, defaults: Defaults) -> Self:
        other = copy.copy(self)
        other.defaults = defaults
        return other

    # -- the way of a call -----------------------------------------------------------------

    async def mapping(self, kind: KindRef | GroupKind) -> RESTMapping:
        """How a kind is served. Raises NoKindMatch if it is not."""
        if isinstance(kind, RESTMapping):
            return kind
        if isinstance(kind, str):
            kind = gvk_of(kind)
        if isinstance(kind, GroupVersionKind | GroupKind):
            return await self.mapper.resolve(kind)
        return kind.mapping()

    async def _call(
        self,
        verb: Verb,
        kind: KindRef,
        name: str | None,
        *,
        namespace: str | None,
        subresource: str | None = None,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        metadata_only: bool = False,
    ) -> Call:
        if isinstance(kind, RESTMapping):
            mapping = kind
        else:
            mapping = kind.mapping() if isinstance(kind, type) else await self.mapping(kind)
        return Call(
            verb=verb,
            mapping=mapping,
            namespace=self._namespace(mapping, namespace),
            name=name,
            subresource=subresource,
            params=params or {},
            headers={"Accept": METADATA_ONLY} if metadata_only else {},
            body=body,
            content_type=content_type,
            timeout=self.defaults.timeout,
        )

    def _namespace(self, mapping: RESTMapping, namespace: str | None) -> str | None:
        if not mapping.namespaced:
            return None
        own = self.defaults.namespace
        if own is not None and namespace not in (None, "", own):
            raise ValueError(f"this client is for namespace {own!r}, not {namespace!r}")
        return namespace or own

    def _execute(self, call: Call) -> Awaitable[Response]:
        return self._through(self.interceptors, call) if self.interceptors else self._send(call)

    def _through(self, interceptors: tuple[Interceptor, ...], call: Call) -> Awaitable[Response]:
        if not interceptors:
            return self._send(call)
        first, *others = interceptors
        rest = tuple(others)
        return first(call, lambda passed: self._through(rest, passed))

    async def _send(self, call: Call) -> Response:
        try:
            response = await self.transport.request(
                METHODS[call.verb],
                call.path,
                params=call.params,
                headers=call.headers,
                body=call.body,
                content_type=call.content_type,
                timeout=call.timeout,
            )
        except NotFound as error:
            if not error.is_of_kind:
                raise
            self.mapper.invalidate(call.mapping.gvk.group)
            raise error.of_kind(call.mapping) from None
        if response.body[:1] != b"{" and response.body.lstrip()[:1] != b"{":
            raise no_object(METHODS[call.verb], call.path, response.body)
        return response


def reading_of(call: Call) -> AbstractContextManager[None]:
    """Return the context in which the answer of a call is read. See `reading`."""
    return reading(METHODS[call.verb], call.path)


def as_json(body: bytes | msgspec.Raw, what: str = "the object") -> Manifest:
    """Return a body as a manifest. Raises LimitExceeded for one that is nested too deep; ``what`` names it."""
    try:
        return cast("Manifest", orjson.loads(memoryview(body)))
    except orjson.JSONDecodeError:
        if not is_deeper(whole := bytes(memoryview(body)), OBJECT_DEPTH):
            raise
        raise LimitExceeded(_named(whole, what), "depth", OBJECT_DEPTH) from None


def _named(body: bytes, what: str) -> str:
    """Return which object a body is that cannot be decoded."""
    try:
        metadata = split_members(split_members(body)["metadata"])
        names = [orjson.loads(metadata[each]) for each in ("namespace", "name") if each in metadata]
    except (KeyError, ValueError):
        return what
    return f"{what} {'/'.join(map(str, names))}"


def decode(
    body: bytes | msgspec.Raw, kind: KindRef, mapping: RESTMapping, metadata_only: bool
) -> Resource[Any, Any] | Manifest:
    """Return a body as an object of the kind. Raises LimitExceeded for one that is nested too deep."""
    try:
        manifest = as_json(body, mapping.gvk.kind)
    except LimitExceeded:
        if not metadata_only:
            raise
        manifest = _metadata_alone(bytes(memoryview(body)), mapping.gvk.kind)
    if not isinstance(manifest, dict):
        raise msgspec.DecodeError(f"{describe_value(manifest)} in the place of an object")
    return decode_manifest(manifest, mapping if metadata_only else kind, mapping)


def _metadata_alone(body: bytes, what: str) -> Manifest:
    """Return metadata without managedFields, which are as deep as the object."""
    metadata = split_members(split_members(body)["metadata"])
    return {
        "metadata": {
            name: as_json(raw, what) for name, raw in metadata.items() if name != "managedFields"
        }
    }


def version_of(body: bytes) -> Manifest:
    """Return of an object its UID and resourceVersion, as a manifest."""
    try:
        found = _version_decoder.decode(body).metadata
    except RecursionError:  # the object is nested too deep
        metadata = split_members_or_fail(split_members_or_fail(body)["metadata"])
        metadata.pop("managedFields", None)
        return {
            "metadata": {
                name: orjson.loads(metadata[name])
                for name in ("uid", "resourceVersion")
                if name in metadata
            }
        }
    return {"metadata": {"uid": found.uid, "resourceVersion": found.resource_version}}


def decode_manifest(
    manifest: Manifest, kind: KindRef, mapping: RESTMapping
) -> Resource[Any, Any] | Manifest:
    """List items of built-in kinds come without apiVersion and kind; metadata-only ones with others."""
    if manifest.get("kind") in (None, "PartialObjectMetadata"):
        gvk = mapping.gvk
        manifest = {**manifest, "apiVersion": gvk.api_version, "kind": gvk.kind}
    return kind.from_manifest(manifest) if isinstance(kind, type) else manifest
