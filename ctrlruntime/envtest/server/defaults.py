"""What the server fills in for built-in kinds."""

from __future__ import annotations

from typing import Any

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.definitions import default_definition
from ctrlruntime.envtest.server.kinds import Kind


def initial_status(kind: Kind) -> dict[str, Any] | None:
    """The status of a new object; None keeps what was sent."""
    return {}


def apply_defaults(kind: Kind, obj: Manifest) -> None:
    """Fill in the defaults of a built-in kind, in place."""
    if kind.kind == "CustomResourceDefinition":
        default_definition(obj)
