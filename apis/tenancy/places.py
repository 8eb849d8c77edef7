"""The condition of a Tenant on a data plane whose objects may be on the wrong server."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from ctrlruntime.api.conditions import Conditions, find_condition, new_condition, set_condition

PLACES_KNOWN: Final = "PlacesKnown"
"""There once the place of an object, hub or data plane, was in doubt."""


def report_places(
    conditions: Conditions, doubts: Sequence[str], generation: int, now: datetime
) -> None:
    """Record why objects may be on the wrong server: a condition once there was a doubt, which fails nothing."""
    if not doubts and find_condition(conditions, PLACES_KNOWN) is None:
        return
    condition = new_condition(PLACES_KNOWN, True, "AllKnown", "The place of every object is known.")
    if doubts:
        more = f" And {len(doubts) - 5} more." if len(doubts) > 5 else ""
        message = "".join(f"{each}. " for each in doubts[:5]).rstrip() + more
        condition = new_condition(PLACES_KNOWN, False, "PlaceUnknown", message)
    condition.observed_generation = generation
    set_condition(conditions, condition, now)
