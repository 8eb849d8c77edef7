"""The condition of tenants whose workloads are on a hub."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from ctrlruntime.api.conditions import Conditions, find_condition, new_condition, set_condition
from internal.tenancy.target_clusters import ClusterTrouble

HUB_READY: Final = "HubReady"
"""Condition of tenants on a data plane: there once an object had to go to the hub."""
PLACED: Final = "ObjectsPlaced"


def report_hub(
    conditions: Conditions,
    troubles: Sequence[ClusterTrouble],
    generation: int,
    now: datetime,
    *,
    used: bool,
) -> None:
    """Record whether the hub takes the tenant's objects, and what to do where it does not."""
    before = find_condition(conditions, HUB_READY)
    if not troubles and before is None and not used:
        return
    condition = new_condition(HUB_READY, True, PLACED, "The hub has what belongs there.")
    if troubles:
        first = min(troubles, key=lambda each: (each.reason, each.message))
        condition = new_condition(HUB_READY, False, first.reason, first.message)
    condition.observed_generation = generation
    set_condition(conditions, condition, now)
