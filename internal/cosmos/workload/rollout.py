"""How many instances may be taken down for a change. Pure."""

from typing import Final

from ctrlruntime.rollout import resolve

MaxUnavailable = int | str | None
"""A number of instances, or a percentage of those desired such as `25%`; None for the default."""

DEFAULT: Final = "25%"


def tolerated(max_unavailable: MaxUnavailable, desired: int) -> int:
    """How many of `desired` instances may be down at once: rounded down, and at least 1.

    ValueError for what is neither a number nor a percentage.
    """
    try:
        return resolve(DEFAULT if max_unavailable is None else max_unavailable, desired)
    except ValueError as error:
        raise ValueError(f"maxUnavailable: {error}") from None


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
