"""The last lines of a log, bounded in lines and in bytes. Pure, but for the file that is read."""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

__all__ = ["MOST_BYTES", "MOST_LINES", "Tail", "file_state", "file_tail"]

MOST_LINES: Final = 200
MOST_BYTES: Final = 64 * 1024
"""Bytes of the lines as a page has them: in UTF-8, with what HTML escapes."""
LONGEST_LINE: Final = 4096
"""Characters of a line; the rest of it is left out."""
_END: Final = 256 * 1024
"""Bytes of a file that are read, from its end."""
_SEQUENCES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-_])")
"""Escape sequences of terminals: colours, movements, titles."""
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")

FileState = tuple[int, int, int]
"""Inode, size, and time of the last change in nanoseconds."""


class Tail:
    """The last lines that were added."""

    def __init__(self) -> None:
        self._lines: deque[tuple[str, int]] = deque()
        self._bytes = 0

    @property
    def lines(self) -> Sequence[str]:
        """The lines, oldest first."""
        return [line for line, _ in self._lines]

    def add(self, line: bytes) -> None:
        """Add a line, as plain text."""
        text = plain(line)
        size = len(escape(text).encode()) + 1
        self._lines.append((text, size))
        self._bytes += size
        while len(self._lines) > MOST_LINES or self._bytes > MOST_BYTES:
            self._bytes -= self._lines.popleft()[1]


def plain(line: bytes) -> str:
    """Return a line as text without control characters, at most LONGEST_LINE of it.

    Of a line that was written over after carriage returns, what a terminal shows last is kept.
    """
    text = _SEQUENCES.sub("", line.decode(errors="replace"))
    return _CONTROLS.sub("", text.rstrip("\r").rpartition("\r")[2])[:LONGEST_LINE]


def file_tail(path: Path) -> Tail:
    """Return the last lines of a regular file. Raises OSError, also for a symbolic link."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise FileNotFoundError(f"{path} is not a file")
        begin = max(found.st_size - _END, 0)
        file.seek(begin)
        data = file.read(_END)
    if begin:
        # What comes before the first newline is the end of a line that began earlier.
        data = data.partition(b"\n")[2] or data
    tail = Tail()
    for line in data.split(b"\n"):
        if line:
            tail.add(line)
    return tail


def file_state(path: Path) -> FileState | None:
    """Return what changes when a file does, or None without it."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
