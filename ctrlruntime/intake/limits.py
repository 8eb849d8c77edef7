"""Limits of what is read from outside, and the errors of what exceeds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

LimitName = Literal["bytes", "depth", "items", "seconds"]

OBJECT_DEPTH: Final = 200
"""Levels of nesting of one field of an object. The encoders end at 254, and a manifest or patch adds a few."""

_REMEDIES: Final[dict[LimitName, tuple[str, str]]] = {
    "bytes": ("is larger than {} bytes", "make it smaller, or split it"),
    "depth": ("is nested more than {} levels deep", "remove levels of mappings and lists"),
    "items": ("has more than {} values", "split it, or remove values and aliases"),
    "seconds": ("took longer than {} seconds", "make it smaller, or serve it faster"),
}


class IntakeError(ValueError):
    """What came from outside cannot be read. The message names the place, never the content."""


class Malformed(IntakeError):
    """It is not of its format: not JSON, YAML or a compressed stream."""


class LimitExceeded(IntakeError):
    """It exceeds a limit, named by ``limit``."""

    def __init__(self, what: str, limit: LimitName, allowed: float) -> None:
        fault, remedy = _REMEDIES[limit]
        super().__init__(f"{what} {fault.format(f'{allowed:,}')}: {remedy}")
        self.limit: LimitName = limit
        self.allowed = allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one document, body or archive may take.

    ``items`` counts values of a document, aliases of YAML expanded, or members of an archive. ``seconds`` holds
    for what arrives in pieces; a document is bounded by the other three.
    """

    bytes: int
    depth: int = OBJECT_DEPTH
    items: int = 100_000
    seconds: float = 30.0

    def check_bytes(self, size: int, what: str) -> None:
        """Raise LimitExceeded for more than ``bytes``."""
        if size > self.bytes:
            raise LimitExceeded(what, "bytes", self.bytes)


DOCUMENT: Final = Limits(bytes=2**20, depth=64, items=10_000)
"""A file of configuration: 1 MiB, as much as a Secret or ConfigMap holds; read in some 30 ms at most."""
