"""Validation of built-in kinds beyond their schema."""

from __future__ import annotations

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.errors import FieldError
from ctrlruntime.envtest.server.kinds import Kind


def check(kind: Kind, new: Manifest, old: Manifest | None, subresource: str) -> list[FieldError]:
    return []
