"""The four kinds of patch, as functions from the live object to the new one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import orjson
import yaml

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.merge.apply import ApplyConflict, ApplyRejected, apply
from ctrlruntime.envtest.merge.patches import PatchError, json_patch, merge_patch, strategic_merge
from ctrlruntime.envtest.schema.registry import TypeSchema
from ctrlruntime.envtest.schema.strict import DecodeError, repeated_fields, strict_decode
from ctrlruntime.envtest.server import conversion, defaults
from ctrlruntime.envtest.server.codec import check_applied, check_type, read_yaml
from ctrlruntime.envtest.server.errors import (
    StatusError,
    apply_conflict,
    bad_request,
    unsupported_media_type,
)
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.request import Request
from ctrlruntime.envtest.server.state import State

JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC: Final = "application/strategic-merge-patch+json"
APPLY_YAML: Final = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Patch:
    """`make` turns the live object (None: absent) into the new one."""

    make: Callable[[Manifest | None], Manifest]
    creates: bool = False
    tracks: bool = False


class Patcher:
    """Reads patches; also cleans decoded objects, for all writes alike."""

    def __init__(self, state: State) -> None:
        self._state = state

    def prepare(self, kind: Kind, request: Request) -> Patch:
        """Raise UnsupportedMediaType, BadRequest."""
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
        return Patch(self._plain(kind, request, content_type))

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
                self.clean(kind, request, new, repeated)
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

    def _apply(self, kind: Kind, request: Request) -> Patch:
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
            self.fill(kind, request, new, pruned=not kind.custom, applied=applied)
            return new

        return Patch(make, creates=not request.subresource, tracks=True)

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
                convert=self.converter(kind),
            )
        except ApplyConflict as error:
            raise apply_conflict(str(error), error.causes) from None
        except ApplyRejected as error:
            raise StatusError(error.code, error.reason, str(error)) from None
        copy: Manifest = orjson.loads(orjson.dumps(merged))
        return copy

    def converter(
        self, kind: Kind
    ) -> Callable[[Manifest, str], tuple[Manifest, TypeSchema] | None]:
        """Objects of the kind in another of its versions, for the field managers."""
        state = self._state

        def convert(obj: Manifest, api_version: str) -> tuple[Manifest, TypeSchema] | None:
            version = api_version.rpartition("/")[2]
            if version not in kind.versions or kind.api_version(version) != api_version:
                return None
            current = str(obj.get("apiVersion", "")).rpartition("/")[2]
            stored = conversion.to_storage(kind, obj, current)
            shown = conversion.from_storage(kind, stored, version)
            return shown, state.schema(kind, version)

        return convert

    # -- decoded objects -------------------------------------------------------------------

    def clean(self, kind: Kind, request: Request, obj: Manifest, repeated: list[str]) -> None:
        """Drop unknown fields, with warnings as fieldValidation requires, and fill in defaults."""
        removed = self._state.schema(kind, request.version).prune(obj)
        if request.field_validation != "Ignore" and (removed or repeated):
            found = [*repeated, *(f'unknown field "{path}"' for path in removed)]
            self._complain(kind, request, found)
        self.fill(kind, request, obj, pruned=True)

    def fill(
        self,
        kind: Kind,
        request: Request,
        obj: Manifest,
        *,
        pruned: bool = False,
        applied: Manifest | None = None,
    ) -> None:
        """Complete the patched object.

        `applied`: where the object is the result of an apply, what a merge has held against the schema and
        put into an object that was right.
        """
        schema = self._state.schema(kind, request.version)
        if not pruned:
            schema.prune(obj)
        if kind.custom:
            # The nulls of an apply, and those that a removal leaves, are for the validation.
            if applied is None:
                schema.drop_nulls(obj)
                self._decodes(kind, request, obj, schema)
            schema.default(obj)
        else:
            self._fill_builtin(kind, request, obj, applied)

    def _fill_builtin(
        self, kind: Kind, request: Request, obj: Manifest, applied: Manifest | None
    ) -> None:
        if b"null" in request.body:
            drop_nulls(obj)
        schema = self._state.schema(kind, request.version)
        if applied is None:
            self._decodes(kind, request, obj, schema)
        elif schema.mismatch(applied) is not None:
            schema.wrap_integers(obj)
            self._converts(kind, request, obj, schema)
        schema.normalize(obj)
        if conversion.same_in_storage(kind, request.version):
            defaults.apply_defaults(kind, obj)
            return
        stored = conversion.to_storage(kind, obj, request.version)
        defaults.apply_defaults(kind, stored)
        shown = conversion.from_storage(kind, stored, request.version)
        obj.clear()
        obj.update(shown)

    @staticmethod
    def _decodes(kind: Kind, request: Request, obj: Manifest, schema: TypeSchema) -> None:
        if (mismatch := schema.mismatch(obj)) is not None:
            raise bad_request(
                f'{kind.kind} in version "{request.version}" cannot be handled as a {kind.kind}: '
                f"{mismatch}"
            )

    @staticmethod
    def _converts(kind: Kind, request: Request, obj: Manifest, schema: TypeSchema) -> None:
        """Check the same of what an apply has made, which upstream finds out late."""
        if (mismatch := schema.mismatch(obj)) is not None:
            typed = f"{kind.group}/{request.version}, Kind={kind.kind}"
            name = f"{request.namespace}/{request.name}"
            if mismatch.startswith("illegal base64"):
                mismatch = f"error decoding from json: {mismatch}"
            raise StatusError(
                500,
                "",
                f"failed to convert new object ({name}; {typed}) to proper version: unable to "
                f"convert unstructured object to {typed}: {mismatch}",
            )

    @staticmethod
    def _complain(kind: Kind, request: Request, found: list[str]) -> None:
        if not found or request.field_validation == "Ignore":
            return
        if request.field_validation == "Strict":
            text = f"strict decoding error: {', '.join(found)}"
            if request.verb != "patch" or request.content_type == APPLY_YAML:
                text = f'{kind.kind} in version "{request.version}" cannot be handled as a {kind.kind}: {text}'
            raise bad_request(text)
        request.warnings.extend(text for text in found if text not in request.warnings)


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


def _json_kind(value: Any) -> str:
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "bool"
    return "array" if isinstance(value, list) else "number"


def check_namespace(request: Request, obj: Manifest) -> None:
    """Check that the namespaces of the URL and of the object agree."""
    given = obj["metadata"].get("namespace")
    if given and given != request.namespace:
        raise bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def drop_nulls(obj: Any) -> None:
    """Remove nulls: in a built-in kind they mean absent."""
    if isinstance(obj, list):
        for item in obj:
            drop_nulls(item)
    elif isinstance(obj, dict):
        for name in [key for key, value in obj.items() if value is None]:
            del obj[name]
        for value in obj.values():
            if isinstance(value, (dict, list)):
                drop_nulls(value)


def invalid_patch(patched: Manifest, error: StatusError) -> StatusError:
    """Return a patch whose result cannot be decoded is an invalid value of `patch`."""
    if error.code != 400:
        return error
    shown = orjson.dumps(orjson.dumps(patched).decode()).decode()
    text = f"Invalid value: {shown}: {error.message}"
    cause = {"reason": "FieldValueInvalid", "message": text, "field": "patch"}
    return StatusError(422, "Invalid", f' "" is invalid: patch: {text}', {"causes": [cause]})


def _read_json(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        try:
            return orjson.loads(orjson.dumps(read_yaml(body)))
        except (yaml.YAMLError, TypeError) as error:
            raise bad_request(f"error decoding patch: {error}") from None


def _patched(live: Manifest, patch: Any, content_type: str, schema: TypeSchema) -> Manifest:
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
    except PatchError as error:
        raise StatusError(error.code, error.reason, str(error)) from None
    if not isinstance(new, dict):
        raise bad_request("the patched document is not an object")
    copy: Manifest = orjson.loads(orjson.dumps(new))
    return copy
