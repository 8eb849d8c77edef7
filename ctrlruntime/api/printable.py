"""Text for terminals: without what moves the cursor, sets titles, or changes the direction of reading."""

from __future__ import annotations

import re
from typing import Final

from ctrlruntime.json import Json

_UNPRINTABLE: Final = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u2028-\\u202e\\u2066-\\u2069\\ufeff]"
)
"""C0 but tab and line feed, DEL, C1, and the marks of Unicode's bidirectional algorithm."""


_FOR_PEOPLE: Final = ("message", "reason", "error", "status")
"""How the names of fields with texts for people end, in lower case."""


def printable_status(status: Json) -> Json:
    """Return a status as JSON data with its texts for people (messages, reasons, errors) made printable.

    Every other string stays: it is data, and compared with what it was taken from.
    """
    if isinstance(status, dict):
        return {
            key: printable(value)
            if isinstance(value, str) and key.lower().endswith(_FOR_PEOPLE)
            else printable_status(value)
            for key, value in status.items()
        }
    if isinstance(status, list):
        return [printable_status(each) for each in status]
    return status


def printable(text: str) -> str:
    """Return the text without control characters; tabs and line feeds stay."""
    return text if text.isascii() and text.isprintable() else _UNPRINTABLE.sub("", text)
