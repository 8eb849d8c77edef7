"""The condition of objects on a data plane whose workloads are on the hub."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ctrlruntime.api import Condition
from ctrlruntime.api.conditions import Conditions, find_condition, new_condition, set_condition

HUB_READY: Final = "HubReady"
"""Condition on a data plane: there once an object had to go to the hub."""
PLACED: Final = "ObjectsPlaced"


@dataclass(frozen=True, slots=True)
class ClusterTrouble:
    """Why another cluster has not got an object: the reason and the message of a condition."""

    reason: str
    message: str


def hub_condition(troubles: Sequence[ClusterTrouble]) -> Condition:
    """Return the condition: whether the hub takes the objects, and what to do where it does not."""
    if not troubles:
        return new_condition(HUB_READY, True, PLACED, "The hub has what belongs there.")
    first = min(troubles, key=lambda each: (each.reason, each.message))
    return new_condition(HUB_READY, False, first.reason, first.message)


def report_hub(
    conditions: Conditions,
    troubles: Sequence[ClusterTrouble],
    generation: int,
    now: datetime,
    *,
    used: bool,
) -> None:
    """Record the condition. `used`: objects had to go there."""
    before = find_condition(conditions, HUB_READY)
    if not troubles and before is None and not used:
        return
    condition = hub_condition(troubles)
    condition.observed_generation = generation
    set_condition(conditions, condition, now)
