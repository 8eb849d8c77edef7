"""A pass for each object that is there, again and again: what `every` of a builder's `for_` makes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ctrlruntime.cache.entry import Entry
from ctrlruntime.clock import draw
from ctrlruntime.queue import Item, Request

JITTER: Final = 0.1
"""The share of the interval by which a wait is shortened at most, so that passes spread out."""


@dataclass(frozen=True, slots=True)
class ObjectTimer:
    """When the next pass of an object begins, if nothing else leads to one before.

    It keeps nothing: the wait begins anew after each pass, and so after each start of the process.
    """

    every: float
    """Seconds from the end of a pass to the beginning of the next, at most."""
    entry_of: Callable[[Request], Entry | None]
    """Returns the object of a request as the cache has it."""

    @property
    def reason(self) -> str:
        """The reason of a pass that nothing but the timer led to."""
        return f"every {self.every:g} s"

    def next_pass(self, request: Request) -> float | None:
        """Return the seconds until the next pass; None for an object that is gone."""
        if self.entry_of(request) is None:
            return None
        return self.every * (1.0 - JITTER * draw())

    def is_over(self, item: Item[Any]) -> bool:
        """Whether an item is left from an object that is gone: nothing but the timer leads to it."""
        return item.reasons == {self.reason} and self.entry_of(item.request) is None


def check_interval(every: float) -> None:
    """Raise ValueError, naming the fix, for what is no interval in seconds."""
    if type(every) not in {int, float} or not math.isfinite(every) or every <= 0:
        raise ValueError(f"every is a number of seconds above 0, as every=60, not {every!r}")
