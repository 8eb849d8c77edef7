"""Request bodies to objects, with the API server's complaints about what cannot be read."""

from __future__ import annotations

from typing import Final

import orjson
import yaml

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.merge.apply import printed_kind
from ctrlruntime.envtest.schema.strict import strict_decode
from ctrlruntime.envtest.server import protobuf_objects
from ctrlruntime.envtest.server.errors import (
    StatusError,
    bad_request,
    bad_value,
    invalid,
    unsupported_media_type,
)
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.request import Request
from ctrlruntime.json import Json

_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_BODY_TYPES: Final = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_JSON: Final = "application/json"
_YAML: Final = "application/yaml"
_REGISTERED: Final = frozenset((known.api_version, known.kind) for known in BUILTIN)
"""Versions and kinds that a body may name."""


def read_yaml(body: bytes) -> Json:
    """YAML to what JSON could hold (timestamps stay text)."""
    loader = _LOADER(body)
    loader.yaml_implicit_resolvers = {
        first: [(tag, rx) for tag, rx in found if tag != "tag:yaml.org,2002:timestamp"]
        for first, found in loader.yaml_implicit_resolvers.items()
    }
    try:
        return loader.get_single_data()
    finally:
        loader.dispose()


def body_as_json(request: Request) -> bytes:
    """Return the body as JSON bytes. Raises UnsupportedMediaType, BadRequest."""
    content_type = request.content_type or _JSON
    if content_type == _JSON:
        return request.body
    if content_type in {_YAML, "application/x-yaml", "text/yaml"}:
        try:
            return orjson.dumps(read_yaml(request.body))
        except (yaml.YAMLError, TypeError) as error:
            raise bad_request(f"yaml: {error}") from None
    if content_type == protobuf_objects.MEDIA_TYPE and request.subresource != "status":
        sent = protobuf_objects.decode(request.body)
        if sent is not None:
            return orjson.dumps(sent)
    raise unsupported_media_type(_BODY_TYPES, content_type)


def decode_object(kind: Kind, request: Request) -> tuple[Manifest, list[str]]:
    """Return the object in the body and the strict decoding errors (duplicate keys) found on the way.

    `apiVersion` and `kind` are filled in where a built-in kind leaves them out.
    """
    body = body_as_json(request)
    try:
        obj = orjson.loads(body) if body else None
    except orjson.JSONDecodeError as error:
        raise _unreadable(kind, body, str(error)) from None
    if obj is None:
        raise _unreadable(kind, body, "unexpected end of JSON input")
    if not isinstance(obj, dict):
        text = f"json: cannot unmarshal {_json_type(obj)} into Go value of type struct "
        text += '{ APIVersion string "json:\\"apiVersion,omitempty\\""; '
        text += 'Kind string "json:\\"kind,omitempty\\"" }'
        raise _unreadable(kind, body.hex().encode(), text)
    errors: list[str] = []
    if request.field_validation != "Ignore":
        errors = strict_decode(body)[1]
    check_type(kind, request, obj)
    errors += _unknown_metadata(kind, obj)
    return obj, errors


def _unreadable(kind: Kind, body: bytes, error: str) -> StatusError:
    shown = body[:1024].decode(errors="replace") if body else "<empty>"
    if "unexpected end" in error or "end of" in error.lower() or "EOF" in error:
        error = "unexpected end of JSON input"
    if kind.custom:
        return bad_request(f"couldn't get version/kind; json parse error: {error}")
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind.kind}): "
        f"couldn't get version/kind; json parse error: {error} ({shown})"
    )


def _json_type(value: object) -> str:
    if isinstance(value, list):
        return "array"
    if isinstance(value, bool):
        return "bool"
    return "string" if isinstance(value, str) else "number"


def check_applied(kind: Kind, request: Request, obj: Manifest) -> None:
    """Check the type of an applied object; its members are held against the schema by the merge."""
    api_version = kind.api_version(request.version)
    given = obj.get("apiVersion") or "", obj.get("kind") or ""
    if given != (api_version, kind.kind):
        raise bad_request(f"invalid object type: {printed_kind(*given)}")
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    if not isinstance(obj["metadata"], dict):
        raise _wrong_type(kind, request, obj["metadata"], "metadata", "v1.ObjectMeta")


def check_type(kind: Kind, request: Request, obj: Manifest) -> None:
    own = kind.api_version(request.version), kind.kind
    if (obj.get("apiVersion"), obj.get("kind")) == own:
        _check_metadata(kind, request, obj)
        return
    if kind.custom:
        _check_custom_type(kind, request, obj)
    else:
        given = obj.get("apiVersion") or own[0], obj.get("kind") or own[1]
        if given != own:
            raise _other_type(kind, request, given)
    obj["apiVersion"], obj["kind"] = own
    _check_metadata(kind, request, obj)


_METADATA: Final = frozenset(
    [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
    ]
)


def _unknown_metadata(kind: Kind, obj: Manifest) -> list[str]:
    """Remove unknown metadata of a custom object: it has the fields of ObjectMeta, whatever its schema."""
    if not kind.custom:
        return []
    metadata = obj["metadata"]
    unknown = [name for name in metadata if name not in _METADATA]
    for name in unknown:
        del metadata[name]
    return [f'unknown field "metadata.{name}"' for name in unknown]


def _other_type(kind: Kind, request: Request, given: tuple[str, str]) -> StatusError:
    version, name = given
    head = f'{name} in version "{version.rpartition("/")[2]}" cannot be handled as a {kind.kind}'
    if given not in _REGISTERED:
        scheme = "k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30"
        return bad_request(
            f'{head}: no kind "{name}" is registered for version "{version}" in scheme "{scheme}"'
        )
    if name == kind.kind:
        return _other_version(version, kind.api_version(request.version))
    return bad_request(f"{head}: converting (v1.{name}) to (core.{kind.kind}): unknown conversion")


def _other_version(given: object, expected: str) -> StatusError:
    return bad_request(
        f"the API version in the data ({given}) does not match the expected API version ({expected})"
    )


def _check_custom_type(kind: Kind, request: Request, obj: Manifest) -> None:
    for field in ("kind", "apiVersion"):
        if not obj.get(field):
            title = "Kind" if field == "kind" else field
            shown = orjson.dumps(obj).decode()
            raise bad_request(f"Object '{title}' is missing in '{shown}'")
    if obj["apiVersion"] != kind.api_version(request.version):
        raise _other_version(obj["apiVersion"], kind.api_version(request.version))
    if obj["kind"] != kind.kind:
        error = bad_value("kind", obj["kind"], f"must be {kind.kind}")
        name = (obj.get("metadata") or {}).get("name") or ""
        raise invalid(kind.group, obj["kind"], name, [error])


_STRINGS: Final = ("name", "generateName", "namespace", "uid", "resourceVersion")
_MAPS: Final = ("labels", "annotations")


def _check_metadata(kind: Kind, request: Request, obj: Manifest) -> None:
    """Types of the metadata the server itself reads. Nulls are taken as absent."""
    metadata = obj.setdefault("metadata", {})
    if metadata is None:
        metadata = obj["metadata"] = {}
    if not isinstance(metadata, dict):
        raise _wrong_type(kind, request, metadata, "metadata", "v1.ObjectMeta")
    for name in _STRINGS:
        value = metadata.get(name, "")
        if value is None:
            del metadata[name]
        elif not isinstance(value, str):
            raise _wrong_type(kind, request, value, f"metadata.{name}", "string")
    for name in _MAPS:
        _check_map(kind, request, metadata, name)
    _check_lists(kind, request, metadata)


def _check_lists(kind: Kind, request: Request, metadata: Manifest) -> None:
    for name in ("finalizers", "ownerReferences", "managedFields"):
        value = metadata.get(name)
        if value is not None and not isinstance(value, list):
            raise _wrong_type(kind, request, value, f"metadata.{name}", "[]string")
        if name in metadata and value is None:
            del metadata[name]
    for item in metadata.get("finalizers") or ():
        if not isinstance(item, str):
            raise _wrong_type(kind, request, item, "metadata.finalizers", "string")
    for item in metadata.get("ownerReferences") or ():
        if not isinstance(item, dict):
            raise _wrong_type(kind, request, item, "metadata.ownerReferences", "v1.OwnerReference")


def _check_map(kind: Kind, request: Request, metadata: Manifest, name: str) -> None:
    value = metadata.get(name)
    if value is None:
        metadata.pop(name, None)
        return
    if not isinstance(value, dict):
        raise _wrong_type(kind, request, value, f"metadata.{name}", "map[string]string")
    for key, item in value.items():
        if item is None:
            value[key] = ""
        elif not isinstance(item, str):
            raise _wrong_type(kind, request, item, f"metadata.{name}", "string")


def _wrong_type(
    kind: Kind, request: Request, value: object, field: str, wanted: str
) -> StatusError:
    found = "object" if isinstance(value, dict) else _json_type(value)
    # The metadata of a custom resource is decoded on its own.
    shown = field.removeprefix("metadata.") if kind.custom else field
    return bad_request(
        f'{kind.kind} in version "{request.version}" cannot be handled as a {kind.kind}: json: cannot '
        f"unmarshal {found} into Go struct field ObjectMeta.{shown} of type {wanted}"
    )
