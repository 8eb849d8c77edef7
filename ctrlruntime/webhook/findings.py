"""What is wrong with an object, field by field, in the API server's words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import orjson
from pydantic import ValidationError

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.errors import Invalid

__all__ = ["FieldError", "FieldErrorList", "field_path", "findings_of", "invalid_object"]


@dataclass(frozen=True, slots=True)
class FieldError:
    """One field that is wrong: its path, the machine-readable reason, and the message."""

    field: str
    reason: str
    message: str

    def cause(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.message, "field": self.field}

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"


class FieldErrorList:
    """Collects findings and warnings, so that one answer tells all of them.

    ``field`` is a path such as ``spec.ports[0].name``.
    """

    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self.warnings: list[str] = []

    def warn(self, message: str) -> None:
        """Add a warning, which is no reason to refuse. The server cuts after 256 bytes."""
        self.warnings.append(message)

    def invalid(self, field: str, value: object, detail: str) -> None:
        text = f"Invalid value: {_shown(value)}: {detail}"
        self.errors.append(FieldError(field, "FieldValueInvalid", text))

    def required(self, field: str, detail: str = "") -> None:
        text = f"Required value: {detail}" if detail else "Required value"
        self.errors.append(FieldError(field, "FieldValueRequired", text))

    def forbidden(self, field: str, detail: str) -> None:
        self.errors.append(FieldError(field, "FieldValueForbidden", f"Forbidden: {detail}"))

    def duplicate(self, field: str, value: object) -> None:
        text = f"Duplicate value: {_shown(value)}"
        self.errors.append(FieldError(field, "FieldValueDuplicate", text))

    def not_supported(self, field: str, value: object, allowed: Sequence[str]) -> None:
        listed = ", ".join(f'"{item}"' for item in allowed)
        text = f"Unsupported value: {_shown(value)}: supported values: {listed}"
        self.errors.append(FieldError(field, "FieldValueNotSupported", text))


def invalid_object(gvk: GroupVersionKind, name: str, errors: Iterable[FieldError]) -> Invalid:
    """Return the 422 that names every finding, as the API server words its own."""
    found = list(errors)
    texts = [str(item) for item in found]
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return Invalid(
        f'{gvk.group_kind} "{name}" is invalid: {listed}',
        details={
            "name": name,
            "group": gvk.group,
            "kind": gvk.kind,
            "causes": [item.cause() for item in found],
        },
    )


def findings_of(error: ValidationError) -> list[FieldError]:
    """Return the findings of pydantic; what was given is left out, as it may be secret."""
    return [
        FieldError(
            field_path(item["loc"]), _reason(item["type"]), _message(item["type"], item["msg"])
        )
        for item in error.errors(include_input=False, include_url=False, include_context=False)
    ]


def field_path(location: Iterable[int | str]) -> str:
    """``spec.ports[0].name`` for ``("spec", "ports", 0, "name")``."""
    path = ""
    for part in location:
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


def _reason(kind: str) -> str:
    return "FieldValueRequired" if kind == "missing" else "FieldValueInvalid"


def _message(kind: str, text: str) -> str:
    return "Required value" if kind == "missing" else f"Invalid value: {text}"


def _shown(value: object) -> str:
    return orjson.dumps(value, default=str).decode()
