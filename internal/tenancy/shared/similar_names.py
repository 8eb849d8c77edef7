"""What a wrong name was probably meant to be. The cost is bounded, whatever the names are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

LONGEST_NAME: Final = 64
"""Characters of a name that is compared with others."""
MOST_PAIRS: Final = 25_000
"""Pairs of equal characters that are compared for one name, which takes 5 ms at most."""
NAME_COST: Final = 25
"""Pairs that a comparison counts as, beside its own."""


def similar_name(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str | None:
    """Return the known name that is most like `name`, if one is; where they are many, one of the first."""
    if len(name) > LONGEST_NAME:
        return None
    counts = Counter(name)
    compared: list[str] = []
    left = MOST_PAIRS
    for each in known:
        if len(each) <= LONGEST_NAME:
            left -= NAME_COST + sum(counts[character] for character in each)
            if left < 0:
                break
            compared.append(each)
    return next(iter(get_close_matches(name, compared, n=1, cutoff=cutoff)), None)
