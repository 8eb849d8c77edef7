"""Two queries of a registry are compared whole, and other tasks have their turns meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from internal.tenancy.registry.query_schedule import BREATH, is_same
from internal.tenancy.rows.row import ActiveRow, InvalidRow, Reading, RowProblem

ROWS = 1000
FOUND = Reading(
    active=tuple(ActiveRow(f"t{number}", {"plan": "basic"}) for number in range(ROWS)),
    total=ROWS + 3,
    inactive=frozenset({"gone"}),
    held=frozenset({"doubtful"}),
    invalid=(InvalidRow(RowProblem.DUPLICATE_UID, "twice", 2),),
)
CHANGED = ActiveRow(f"t{ROWS - 1}", {"plan": "gold"})
SECRET = ActiveRow(f"t{ROWS - 1}", {"plan": "basic"}, {"password": "new"})


def again(found: Reading) -> Reading:
    """Return an equal reading that shares no row."""
    rows = tuple(
        ActiveRow(each.uid, dict(each.variables), dict(each.sensitive)) for each in found.active
    )
    return replace(found, active=rows)


async def test_a_reading_is_the_same_as_an_equal_one() -> None:
    assert await is_same(FOUND, again(FOUND))
    assert await is_same(Reading(), Reading())


@pytest.mark.parametrize(
    "other",
    [
        replace(FOUND, active=(*FOUND.active[:-1], CHANGED)),
        replace(FOUND, active=(*FOUND.active[:-1], SECRET)),
        replace(FOUND, active=FOUND.active[:-1]),
        replace(FOUND, active=(*FOUND.active, ActiveRow("more", {}))),
        replace(FOUND, active=tuple(reversed(FOUND.active))),
        replace(FOUND, total=ROWS),
        replace(FOUND, inactive=frozenset()),
        replace(FOUND, held=frozenset()),
        replace(FOUND, invalid=()),
        replace(FOUND, invalid=(InvalidRow(RowProblem.DUPLICATE_UID, "twice", 3),)),
        replace(FOUND, unidentified=1),
    ],
)
async def test_a_reading_that_differs_in_any_part_is_another(other: Reading) -> None:
    assert not await is_same(FOUND, other)
    assert not await is_same(other, FOUND)


async def test_the_first_reading_is_another_even_if_it_is_empty() -> None:
    assert not await is_same(None, Reading())


async def test_the_loop_has_its_turns_while_rows_are_compared() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count_turns())
    assert await is_same(FOUND, again(FOUND))
    counting.cancel()
    assert turns >= ROWS // BREATH
