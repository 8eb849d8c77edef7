"""Text for terminals: without what moves the cursor, sets titles, or changes the direction of reading."""

from __future__ import annotations

import re
from typing import Final

_UNPRINTABLE: Final = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff]"
)
"""C0 but tab and line feed, DEL, C1, and the marks of Unicode's bidirectional algorithm."""


def printable(text: str) -> str:
    """Return the text without control characters; tabs and line feeds stay."""
    return text if text.isascii() and text.isprintable() else _UNPRINTABLE.sub("", text)
