"""Keeps the secrets that a task has seen out of its texts."""

from collections.abc import Mapping
from typing import Final, TextIO

import orjson

from internal.cloud.runs import wire

__all__ = ["RedactedStream", "Redaction", "secret_values"]

_SYSTEM: Final = (
    "TASK_", "PATH", "HOME", "HOSTNAME", "LANG", "LC_", "TZ", "TMPDIR", "PWD", "SHLVL", "PYTHON",
    "SSL_CERT_FILE", "KUBERNETES_", "GPG_KEY", "VIRTUAL_ENV",
)  # fmt: skip
"""How names of variables begin that the system, the image or the provider sets."""
_STARS = "***"
_SHORTEST = 4
"""Shorter values are part of ordinary words; a secret of that length is none."""


def secret_values(environment: Mapping[str, str]) -> list[str]:
    """Return the values of variables that came out of a Secret or a file of credentials.

    Where there are any, the provider names all the others in TASK_PLAIN_VARIABLES; what is neither
    among them nor set by the system counts as secret.
    """
    if wire.PLAIN not in environment:
        return []
    plain = set(environment[wire.PLAIN].split(","))
    return [
        value
        for name, value in environment.items()
        if name not in plain and not name.startswith(_SYSTEM)
    ]


class Redaction:
    """Holds the values that must not be seen."""

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
