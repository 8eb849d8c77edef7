"""Send every hostile shape through every door, beside a healthy neighbour, and print what that cost as JSON."""

from __future__ import annotations

import asyncio
import json
import sys

from tests.hostile.measure import Outcome, measured
from tests.hostile.plane_answers import LIST, PLANE, WATCH

DOORS = (PLANE, WATCH, LIST)
LARGEST_PEAK = 200.0
"""MiB above idle."""


async def attack() -> list[Outcome]:
    """Carry out all attacks, one after the other."""
    return [await measured(door, shape) for door in DOORS for shape in door.shapes]


def summary(found: list[Outcome]) -> dict[str, object]:
    """Return the counts, and which attacks were not withstood."""
    return {
        "doors": len({each.door for each in found}),
        "shapes": len(found),
        "longest_stall_ms": round(max(each.stall_ms for each in found), 1),
        "peak_mib": round(max(each.peak_mib for each in found), 1),
        "neighbours_harmed": sum(bool(each.neighbour) for each in found),
        "failed": [f"{each.door}: {each.shape}: {each.error}" for each in found if each.error],
        "slowest": max(found, key=lambda each: each.stall_ms).shape,
    }


def main() -> int:
    """Return 1 where an attack was not withstood, a neighbour was harmed, or too much memory was taken."""
    found = asyncio.run(attack())
    print(json.dumps(summary(found), indent=2))
    bad = any(each.error or each.neighbour or each.peak_mib > LARGEST_PEAK for each in found)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
