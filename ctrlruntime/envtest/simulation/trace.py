"""What happened in a run: a hash of all of it, and the requests to read."""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Line:
    """Something that a reader of a red run needs: a request, an action, a line of a log."""

    at: float
    who: str
    what: object
    """Text, or what becomes text when it is read."""

    def __str__(self) -> str:
        return f"{self.at:12.6f} {self.who or '-':16} {self.what}"


@dataclass(slots=True)
class Trace:
    """The hash covers every step of the loop and every line."""

    keep: int = 4000
    """Lines that are kept, the newest ones."""
    every_step: bool = False
    """Whether steps are lines too: for the comparison of two runs that should be equal."""
    lines: deque[Line] = field(default_factory=deque)
    _hash: Any = field(default_factory=lambda: hashlib.blake2b(digest_size=16))

    def turn(self, at: float, steps: list[str]) -> None:
        """Note the steps of one turn of the loop, each a process and what it runs."""
        self._hash.update(f"{at!r} {steps}\n".encode())
        if self.every_step:
            for step in steps:
                self._keep(Line(at, *step.split(" ", 1)))

    def note(self, at: float, who: str, what: str) -> None:
        """Note what a reader needs."""
        self._hash.update(f"{at!r} {who} {what}\n".encode())
        self._keep(Line(at, who, what))

    def keep_line(self, at: float, who: str, what: object) -> None:
        """Keep a line that is no part of the hash: of a log, which may name what has no order."""
        self._keep(Line(at, who, what))

    @property
    def digest(self) -> str:
        """The hash so far."""
        return str(self._hash.hexdigest())

    def _keep(self, line: Line) -> None:
        self.lines.append(line)
        if len(self.lines) > self.keep:
            self.lines.popleft()
