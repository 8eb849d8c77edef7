"""Three-way merge of texts, by lines: diff3, as `git merge-file` does it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

__all__ = ["MARKS", "Merged", "has_marks", "merge"]

MARKS: Final = ("<<<<<<< yours\n", "=======\n", ">>>>>>> scaffold\n")
"""The lines around a conflict."""
_CONFLICT: Final = re.compile(r"^<<<<<<< .*?^=======$.*?^>>>>>>> ", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Merged:
    """A merged text, and how many of its places carry both sides between marks."""

    text: str
    conflicts: int = 0


def merge(base: str, yours: str, theirs: str) -> Merged:
    """Return ``yours`` with what changed from ``base`` to ``theirs``.

    Where both sides changed the same lines otherwise, the result has both, between marks: no line that is in
    ``yours`` and not in ``base`` is missing from it.
    """
    sides = [text.splitlines(keepends=True) for text in (base, yours, theirs)]
    lines: list[str] = []
    conflicts = 0
    for old, own, new in _chunks(*sides):
        if own in (old, new):
            lines += new
        elif new == old:
            lines += own
        else:
            conflicts += 1
            lines += [MARKS[0], *_ended(own), MARKS[1], *_ended(new), MARKS[2]]
    return Merged("".join(lines), conflicts)


def has_marks(text: str) -> bool:
    """Return whether a conflict of an earlier merge is still in the text, one of git's too."""
    return _CONFLICT.search(text) is not None


def _ended(lines: Sequence[str]) -> list[str]:
    """End the last line, so that a mark begins a line of its own."""
    if lines and not lines[-1].endswith("\n"):
        return [*lines[:-1], f"{lines[-1]}\n"]
    return list(lines)


Chunk = tuple[list[str], list[str], list[str]]


def _chunks(base: list[str], yours: list[str], theirs: list[str]) -> Iterator[Chunk]:
    """Yield the texts in pieces: those that are alike on all sides, and those between them."""
    at = (0, 0, 0)
    for starts, length in _common(base, yours, theirs):
        if starts != at:
            yield (base[at[0] : starts[0]], yours[at[1] : starts[1]], theirs[at[2] : starts[2]])
        same = base[starts[0] : starts[0] + length]
        yield same, same, same
        at = (starts[0] + length, starts[1] + length, starts[2] + length)
    if at != (len(base), len(yours), len(theirs)):
        yield base[at[0] :], yours[at[1] :], theirs[at[2] :]


def _common(
    base: list[str], yours: list[str], theirs: list[str]
) -> Iterator[tuple[tuple[int, int, int], int]]:
    """Yield where runs of ``base`` are unchanged on both sides: their starts and their length."""
    own, new = _blocks(base, yours), _blocks(base, theirs)
    while own and new:
        (a, there, length), (b, here, size) = own[0], new[0]
        start, end = max(a, b), min(a + length, b + size)
        if start < end:
            yield (start, there + start - a, here + start - b), end - start
        if a + length <= b + size:
            own.pop(0)
        else:
            new.pop(0)


def _blocks(base: list[str], other: list[str]) -> list[tuple[int, int, int]]:
    matcher = SequenceMatcher(None, base, other, autojunk=False)
    return [(block.a, block.b, block.size) for block in matcher.get_matching_blocks() if block.size]
