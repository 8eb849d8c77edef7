"""Statuses as a pass that ends well leaves them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apis.health import RULES, expected_conditions


def whole(kind: str, status: Mapping[str, Any]) -> dict[str, Any]:
    """Return a status with the conditions that every pass over its kind writes beside those that it has."""
    conditions, expected = status["conditions"], expected_conditions(kind)
    lacks = RULES[kind].always - {each["type"] for each in conditions}
    more = {"reason": "Any", "message": "", "lastTransitionTime": "2026-11-23T10:00:00Z"}
    added = [{"type": name, "status": expected[name].status, **more} for name in sorted(lacks)]
    return {**status, "conditions": [*conditions, *added]}
