"""Decisions made from bytes, so that hypothesis draws a whole request at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")


class Choices:
    """Takes one decision after another from the bytes of a draw; zeros when they run out."""

    def __init__(self, data: bytes) -> None:
        self._data = iter(data)

    def below(self, count: int) -> int:
        """A number from 0 to count - 1."""
        value = next(self._data, 0)
        if count > 256:
            value = value * 256 + next(self._data, 0)
        return value % count

    def chance(self, percent: int) -> bool:
        """True in so many of a hundred cases; the byte 0 is always False."""
        return next(self._data, 0) * 100 >= (100 - percent) * 256

    def one(self, values: Sequence[T]) -> T:
        return values[self.below(len(values))]

    def some(self, values: Sequence[Any], most: int) -> list[Any]:
        """Between one and `most` of the values, in any order."""
        left = list(values)
        count = 1 + self.below(min(most, len(left)))
        return [left.pop(self.below(len(left))) for _ in range(count)]
