"""Budgets: a number of members, or a percentage of all. Pure."""

from __future__ import annotations

import re
from typing import Final

NumberOrPercent = int | str
"""A number of members, or a percentage of all such as `25%` (rounded down, at least 1)."""

_PERCENTAGE: Final = re.compile(r"([0-9]+)%")


def resolve(limit: NumberOrPercent, total: int) -> int:
    """Return the number of members that `limit` is of `total`, at least 1. Raises ValueError."""
    if isinstance(limit, int):
        return max(limit, 1)
    percentage = _PERCENTAGE.fullmatch(limit.strip())
    if percentage is None:
        raise ValueError(f"write a number or a percentage such as 25%, not {limit!r}")
    return max(total * int(percentage[1]) // 100, 1)
