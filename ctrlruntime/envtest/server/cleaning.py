"""What becomes of a decoded object before it is written: unknown fields go, defaults come."""

from __future__ import annotations

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.schema.registry import TypeSchema
from ctrlruntime.envtest.server import conversion
from ctrlruntime.envtest.server.errors import StatusError, bad_request
from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.request import APPLY_YAML, Request
from ctrlruntime.envtest.server.state import State


class Cleaner:
    """Cleans the objects of all writes alike."""

    def __init__(self, state: State) -> None:
        self._state = state

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

    def default(self, kind: Kind, version: str, obj: Manifest) -> None:
        """Fill in the defaults of a version, in place, as after each mutating webhook."""
        if kind.custom:
            self._state.schema(kind, version).default(obj)
        elif conversion.same_in_storage(kind, version):
            kind.builtin.defaults.fill(obj)
        else:
            stored = conversion.to_storage(kind, obj, version)
            kind.builtin.defaults.fill(stored)
            shown = conversion.from_storage(kind, stored, version)
            obj.clear()
            obj.update(shown)

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
            self._converts(kind, request, obj, applied, schema)
        schema.normalize(obj)
        self.default(kind, request.version, obj)

    @staticmethod
    def _decodes(kind: Kind, request: Request, obj: Manifest, schema: TypeSchema) -> None:
        if (mismatch := schema.mismatch(obj)) is not None:
            raise bad_request(
                f'{kind.kind} in version "{request.version}" cannot be handled as a {kind.kind}: '
                f"{mismatch}"
            )

    @staticmethod
    def _converts(
        kind: Kind, request: Request, obj: Manifest, applied: Manifest, schema: TypeSchema
    ) -> None:
        """Check the same of what an apply has made, which upstream finds out late."""
        if (mismatch := schema.mismatch(obj)) is not None:
            typed = f"{kind.group}/{request.version}, Kind={kind.kind}"
            name = f"{applied['metadata'].get('namespace', '')}/{request.name}"
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


def drop_nulls(obj: object) -> None:
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
