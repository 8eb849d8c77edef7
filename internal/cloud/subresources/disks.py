"""How often claims are looked at: the rarer, the more room they have. Pure.

A look is a run, and most find nothing to do. The last result decides how soon the next is of use.
"""

from collections.abc import Mapping
from typing import Final

FULLEST: Final = "fullest"
"""Output of a look: how full the fullest claim is, in per cent."""
SOON: Final = 600.0
"""Seconds between looks at claims that may be full before long, or whose usage is unknown."""
LATER: Final = 3600.0
"""The same, 10 points and more below the threshold."""
SELDOM: Final = 6 * 3600.0
"""The same, 30 points and more below."""


def looks_apart(outputs: Mapping[str, str], threshold: int) -> float:
    """Seconds between two looks, by what the last one handed back."""
    fullest = outputs.get(FULLEST, "")
    if not fullest.isdecimal():
        return SOON
    room = threshold - int(fullest)
    if room >= 30:
        return SELDOM
    return LATER if room >= 10 else SOON
