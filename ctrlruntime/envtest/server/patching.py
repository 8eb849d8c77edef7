"""The four kinds of patch, each as the first step of a write: from the live object to the new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import orjson
import yaml

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.merge.apply import ApplyConflict, ApplyRejected, apply
from ctrlruntime.envtest.merge.patches import PatchRefused, json_patch, merge_patch, strategic_merge
from ctrlruntime.envtest.schema.registry import TypeSchema
from ctrlruntime.envtest.schema.strict import DecodeError, repeated_fields, strict_decode
from ctrlruntime.envtest.server.building import Build, check_namespace
from ctrlruntime.envtest.server.cleaning import Cleaner
from ctrlruntime.envtest.server.codec import check_applied, check_type, read_yaml
from ctrlruntime.envtest.server.errors import (
    StatusError,
    apply_conflict,
    bad_request,
    unsupported_media_type,
)
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.request import APPLY_YAML, Request
from ctrlruntime.envtest.server.state import State
from ctrlruntime.json import Json

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"


class Patcher:
    """Reads patches."""

    def __init__(self, state: State, cleaner: Cleaner) -> None:
        self._state = state
        self._cleaner = cleaner

    def build(self, kind: Kind, request: Request) -> Build:
        """Return what the patch makes of an object. Raises UnsupportedMediaType, BadRequest."""
        content_type = request.content_type
        if content_type == APPLY_YAML:
            return self._apply(kind, request)
        allowed = [JSON_PATCH, MERGE_PATCH, APPLY_YAML]
        if not kind.custom:
            allowed.insert(2, STRATEGIC)
        if content_type not in allowed:
            raise unsupported_media_type(", ".join(allowed), content_type)
        if "force" in request.query:
            raise StatusError(
                422,
                "Invalid",
                'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for non-apply patch',
                {"group": "meta.k8s.io", "kind": "PatchOptions"},
            )
        return Build(self._plain(kind, request, content_type))

    def _plain(
        self, kind: Kind, request: Request, content_type: str
    ) -> Callable[[Manifest | None], Manifest]:
        patch = _read_json(request.body)
        repeated = self._repeated(request)
        schema = self._state.schema(kind, request.version)

        def make(live: Manifest | None) -> Manifest:
            assert live is not None  # noqa: S101 - plain patches never create
            new = _patched(live, patch, content_type, schema)
            if content_type not in (JSON_PATCH, MERGE_PATCH):
                schema.wrap_integers(new)
            try:
                check_type(kind, request, new)
                self._cleaner.clean(kind, request, new, repeated)
            except StatusError as error:
                raise invalid_patch(new, error) from None
            return new

        return make

    @staticmethod
    def _repeated(request: Request) -> list[str]:
        if request.field_validation == "Ignore":
            return []
        try:
            return strict_decode(request.body)[1]
        except DecodeError:
            return []

    def _apply(self, kind: Kind, request: Request) -> Build:
        if not request.query.get("fieldManager"):
            raise StatusError(
                422,
                "Invalid",
                'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
                {
                    "group": "meta.k8s.io",
                    "kind": "PatchOptions",
                    "causes": [
                        {
                            "reason": "FieldValueRequired",
                            "message": "Required value: is required for apply patch",
                            "field": "fieldManager",
                        }
                    ],
                },
            )
        applied, repeated = self._read_applied(kind, request)
        if repeated and request.field_validation == "Strict":
            raise bad_request(f"error strict decoding YAML: {', '.join(repeated)}")

        def make(live: Manifest | None) -> Manifest:
            if live is None and not applied["metadata"].get("name"):
                raise bad_request(
                    f"the name of the object ({request.name} based on URL) was undeterminable: "
                    "name must be provided"
                )
            new = self._merge(kind, request, live, applied)
            if kind.namespaced and live is not None:
                check_namespace(request, new)
            # What is not in the schema, or of a wrong type, the merge has refused already.
            self._cleaner.fill(kind, request, new, pruned=not kind.custom, applied=applied)
            return new

        return Build(make, creates=not request.subresource, tracks=True)

    def _read_applied(self, kind: Kind, request: Request) -> tuple[Manifest, list[str]]:
        applied = read_applied(request)
        check_applied(kind, request, applied)
        ignored = request.field_validation == "Ignore"
        return applied, [] if ignored else repeated_fields(request.body, applied)

    def _merge(
        self, kind: Kind, request: Request, live: Manifest | None, applied: Manifest
    ) -> Manifest:
        state = self._state
        try:
            merged = apply(
                live,
                applied,
                manager=request.query["fieldManager"],
                force=request.flag("force"),
                schema=state.schema(kind, request.version),
                api_version=kind.api_version(request.version),
                now=state.now(),
                subresource=request.subresource,
                convert=state.owners_converter(kind),
            )
        except ApplyConflict as error:
            raise apply_conflict(str(error), error.causes) from None
        except ApplyRejected as error:
            raise StatusError(error.code, error.reason, str(error)) from None
        copy: Manifest = orjson.loads(orjson.dumps(merged))
        return copy


def read_applied(request: Request) -> Manifest:
    """Return the body of an apply, JSON or YAML. Raises BadRequest."""
    try:
        applied = orjson.loads(request.body)
    except orjson.JSONDecodeError:
        try:
            applied = read_yaml(request.body)
        except yaml.YAMLError as error:
            raise bad_request(f"error decoding YAML: {error}") from None
    if applied is None:
        applied = {}
    if not isinstance(applied, dict):
        raise bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot "
            f"unmarshal {_json_kind(applied)} into Go value of type map[string]interface {{}}"
        )
    return applied


def _json_kind(value: object) -> str:
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "bool"
    return "array" if isinstance(value, list) else "number"


def invalid_patch(patched: Manifest, error: StatusError) -> StatusError:
    """Return a patch whose result cannot be decoded is an invalid value of `patch`."""
    if error.code != 400:
        return error
    shown = orjson.dumps(orjson.dumps(patched).decode()).decode()
    text = f"Invalid value: {shown}: {error.message}"
    cause = {"reason": "FieldValueInvalid", "message": text, "field": "patch"}
    return StatusError(422, "Invalid", f' "" is invalid: patch: {text}', {"causes": [cause]})


def _read_json(body: bytes) -> Json:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        try:
            return orjson.loads(orjson.dumps(read_yaml(body)))
        except (yaml.YAMLError, TypeError) as error:
            raise bad_request(f"error decoding patch: {error}") from None


def _patched(live: Manifest, patch: object, content_type: str, schema: TypeSchema) -> Manifest:
    try:
        if content_type == JSON_PATCH:
            new = json_patch(live, patch)
        elif not isinstance(patch, dict):
            raise bad_request(
                "json: cannot unmarshal array into Go value of type map[string]interface {}"
            )
        elif content_type == MERGE_PATCH:
            new = merge_patch(live, patch)
        else:
            new = strategic_merge(live, patch, schema.patch)
    except PatchRefused as error:
        raise StatusError(error.code, error.reason, str(error)) from None
    if not isinstance(new, dict):
        raise bad_request("the patched document is not an object")
    copy: Manifest = orjson.loads(orjson.dumps(new))
    return copy
