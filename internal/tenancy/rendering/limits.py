"""Exact limits on what one rendering may do. Counted, not timed, so the answer never depends on load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from internal.tenancy.rendering.errors import LimitExceeded

KIB = 1024
MIB = 1024 * KIB

LONGEST_TEXT = 2 * MIB
"""Longest string a function may return, in characters. An API server refuses objects above 1.5 MiB."""

LONGEST_LIST = 10_000
"""Most elements a list may have, those of `range` included."""

LARGEST_INTEGER = 2**63 - 1
"""Integers are 64 bits wide, as in the manifests they end up in."""

DEEPEST_VALUE = 64
"""How deep lists and mappings may nest, in manifests and in values."""

MOST_LOSSES = 10
"""Lossy conversions that are recorded of one manifest."""

NODE_COST = 64
"""Work charged for visiting one element of a list or mapping, in units of one character."""

EVALUATION_COST = 8
"""Work charged for evaluating one node of a template's tree, whatever it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one manifest may cost: loop steps, characters worked on, characters put out."""

    steps: int
    work: int
    output: int


INLINE = Limits(steps=0, work=1 * MIB, output=2 * MIB)
"""On the event loop: about 10 ms, 25 at worst, and no loops at all."""

WORKER = Limits(steps=100_000, work=24 * MIB, output=2 * MIB)
"""In the worker process, where a deadline backs up the counters."""


class Meter:
    """Counts what a rendering costs and raises `LimitExceeded` when its limits are passed."""

    __slots__ = ("_limits", "_lost", "_output", "_steps", "_work", "lost")

    def __init__(self, limits: Limits) -> None:
        self.begin(limits)

    def begin(self, limits: Limits) -> None:
        """Start counting afresh, for the next manifest."""
        self._limits = limits
        self._steps = limits.steps
        self._work = limits.work
        self._output = limits.output
        self.lost: list[str] = []
        self._lost: list[str] = []

    def step(self) -> None:
        """Charge one pass through a loop."""
        self._steps -= 1
        if self._steps < 0:
            raise LimitExceeded(f"loops take more than {self._limits.steps} steps")

    def lose(self, what: str) -> None:
        """Record what a conversion lost, once for each template; `what` quotes no value."""
        if what not in self._lost and len(self._lost) < MOST_LOSSES:
            self._lost.append(what)

    def place_losses(self, locate: Callable[[], str]) -> None:
        """Add to `lost` what the template at a place has lost."""
        if self._lost and len(self.lost) < MOST_LOSSES:
            place = locate()
            self.lost += [f"{place}: {what}" for what in self._lost][: MOST_LOSSES - len(self.lost)]
        self._lost.clear()

    def work(self, characters: int) -> None:
        """Charge work on so many characters."""
        self._work -= characters
        if self._work < 0:
            raise LimitExceeded(
                f"the functions work on more than {self._limits.work} characters in all"
            )

    def output(self, characters: int) -> None:
        """Charge text that ends up in the manifest."""
        self._output -= characters
        if self._output < 0:
            raise LimitExceeded(f"the result is longer than {self._limits.output} characters")

    def weigh(self, value: object, cost: int = 1) -> None:
        """Charge for a value and everything in it, stopping as soon as the limit is passed."""
        before = self._work
        self._weigh(value)
        if cost > 1:
            self.work((before - self._work) * (cost - 1))

    def _weigh(self, value: object) -> None:
        if isinstance(value, str | bytes):
            self.work(len(value))
            return
        if not isinstance(value, Mapping | list | tuple):
            self.work(1)
            return
        waiting: list[Any] = [value]
        while waiting:
            item = waiting.pop()
            if isinstance(item, str | bytes):
                self.work(len(item))
            elif isinstance(item, Mapping):
                self.work(len(item) * NODE_COST)
                waiting.extend(item)
                waiting.extend(item.values())
            elif isinstance(item, list | tuple):
                self.work(len(item) * NODE_COST)
                waiting.extend(item)


def check_text_length(characters: int) -> None:
    """Raise `LimitExceeded` before a string of this length is made."""
    if characters > LONGEST_TEXT:
        raise LimitExceeded(f"a text would be longer than {LONGEST_TEXT} characters")


def check_list_length(elements: int) -> None:
    """Raise `LimitExceeded` before a list of this length is made."""
    if elements > LONGEST_LIST:
        raise LimitExceeded(f"a list would have more than {LONGEST_LIST} elements")


def check_integer(value: int) -> int:
    """Return the integer itself, or `LimitExceeded` when it does not fit 64 bits."""
    if not -LARGEST_INTEGER - 1 <= value <= LARGEST_INTEGER:
        raise LimitExceeded("a number does not fit 64 bits")
    return value
