"""Keeps the secrets that a task has seen out of what it says."""

from typing import TextIO

import orjson

__all__ = ["RedactedStream", "Redaction"]

_STARS = "***"
_SHORTEST = 4
"""Shorter values are part of ordinary words; a secret of that length is none."""


class Redaction:
    """Knows the values that must not be seen."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    def add(self, value: str) -> None:
        """Also line by line, as tools quote it, and as JSON has it."""
        for text in (value, *value.splitlines()):
            if len(text.strip()) >= _SHORTEST:
                self._values |= {text.strip(), orjson.dumps(text.strip()).decode()[1:-1]}

    def text(self, said: str) -> str:
        """`said` without any of the values."""
        for value in sorted(self._values, key=len, reverse=True):
            said = said.replace(value, _STARS)
        return said


class RedactedStream:
    """Where a logger writes to: passes everything on without the values."""

    def __init__(self, stream: TextIO, redaction: Redaction) -> None:
        self._stream = stream
        self._redaction = redaction

    def write(self, said: str) -> int:
        return self._stream.write(self._redaction.text(said))

    def flush(self) -> None:
        self._stream.flush()

    def isatty(self) -> bool:
        return False
