"""How much some work is, whatever the machine: the lines of Python that it takes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines(work: Callable[[], object]) -> int:
    """Return how many lines of Python the work takes; each round of a loop is one at least."""
    count, before = 0, sys.gettrace()

    def trace(_frame: FrameType, event: str, _value: object) -> Any:  # noqa: ANN401
        nonlocal count
        count += event == "line"
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count
