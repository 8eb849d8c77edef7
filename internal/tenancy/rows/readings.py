"""Compares what two queries of a registry found."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from internal.tenancy.rows.row import Reading

BREATH: Final = 100
"""Rows that are compared before other tasks get a turn."""


async def is_same(before: Reading | None, after: Reading) -> bool:
    """Return whether a query found what the one before it did; without one before, it did not.

    Other tasks get turns: 10,000 rows take 60 ms.
    """
    if before is None:
        return False
    counts = [replace(each, active=(), invalid=(), doubtful=()) for each in (before, after)]
    return (
        counts[0] == counts[1]
        and await _are_equal(before.active, after.active)
        and await _are_equal(before.invalid, after.invalid)
        and await _are_equal(before.doubtful, after.doubtful)
    )


async def _are_equal(before: Sequence[object], after: Sequence[object]) -> bool:
    if len(before) != len(after):
        return False
    for start in range(0, len(before), BREATH):
        if before[start : start + BREATH] != after[start : start + BREATH]:
            return False
        await asyncio.sleep(0)
    return True
