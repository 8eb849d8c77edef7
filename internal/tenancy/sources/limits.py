"""What is kept of a database's answers, whatever it sends: one rule for all sources.

A value or row that is larger is cut to what its reader refuses as too large, so that its row is unreadable
and named, and never counts as one that vanished.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from internal.tenancy.rows.row import LARGEST_VALUE
from internal.tenancy.sources.errors import SourceError

KIB: Final = 1024
MIB: Final = 1024 * KIB
LARGEST_HANDSHAKE: Final = 64 * KIB
"""Bytes of all that a server sends until a user is authenticated."""
LARGEST_REPLY: Final = 8 * MIB
"""Bytes of one message, and of all that comes beside the rows of one query."""
LARGEST_MESSAGE: Final = 64 * MIB
"""Bytes of a row as PostgreSQL sends it: its values are cut there already."""
LARGEST_CELL: Final = MIB + 1
"""Characters of a value that is kept; no object takes one of more than LARGEST_VALUE."""
LARGEST_LINE: Final = 4 * LARGEST_CELL
"""Characters of a row that are kept."""
MOST_ITERATIONS: Final = 100_000
"""Rounds of SHA-256 for one proof of the password, some 0.1 s of a thread; servers demand 4,096 by default."""
OVERSIZED: Final = "…" * (LARGEST_VALUE // len("…".encode()) + 1)
"""Stands for a value of which nothing is kept: too large, neither active nor inactive, and no uid."""


class PeerExceedsLimits(SourceError):
    """The server sends more than is kept of it."""

    reason = "ValueTooLarge"


class TooManyIterations(SourceError):
    """The server demands more work for a proof of the password than is done for it."""

    reason = "AuthenticationTooCostly"


def bounded(values: Sequence[str | None]) -> list[str | None]:
    """Return a row with values that are too large, and those beyond the row's limit, replaced by OVERSIZED."""
    found: list[str | None] = []
    room = LARGEST_LINE
    for value in values:
        size = 0 if value is None else len(value)
        fits = size <= min(LARGEST_CELL, room)
        room -= size if fits else 0
        found.append(value if fits else OVERSIZED)
    return found
