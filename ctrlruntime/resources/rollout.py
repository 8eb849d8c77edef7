"""How many instances may be taken down for a change. Pure."""

import re
from typing import Final

MaxUnavailable = int | str | None
"""A number of instances, or a percentage of those desired such as `25%`; None for the default."""

DEFAULT: Final = "25%"
_PERCENTAGE: Final = re.compile(r"([0-9]+)%")


def tolerated(max_unavailable: MaxUnavailable, desired: int) -> int:
    """How many of `desired` instances may be down at once: rounded down, and at least 1.

    ValueError for what is neither a number nor a percentage.
    """
    given = DEFAULT if max_unavailable is None else max_unavailable
    if isinstance(given, int):
        return max(given, 1)
    percentage = _PERCENTAGE.fullmatch(given.strip())
    if percentage is None:
        raise ValueError(f"maxUnavailable is a number or a percentage such as 25%, not {given!r}")
    return max(desired * int(percentage[1]) // 100, 1)


def compute_rollout(max_unavailable: MaxUnavailable, desired: int, ready: int) -> int:
    """How many instances may be taken down now, when `ready` of `desired` are there and well.

    Zero as long as no more are well than have to be. ValueError if `desired` or `ready` is below 0.
    """
    if desired < 0 or ready < 0:
        raise ValueError(f"there cannot be {ready} of {desired} instances")
    allowed = tolerated(max_unavailable, desired)
    if ready <= desired - allowed:
        return 0
    return min(allowed - (desired - ready), desired)
