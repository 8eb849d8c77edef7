"""Rows of SQLite that are too large cost themselves alone, and are refused before they are loaded (S-F9)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from internal.tenancy.sources.errors import ValueTooLarge
from internal.tenancy.sources.limits import LARGEST_CELL, OVERSIZED
from internal.tenancy.sources.source import LARGEST_PAGE
from internal.tenancy.sources.sqlite import SQLiteSettings
from tests.hostile.memory import peak_above_idle

pytestmark = pytest.mark.criterion("S-F9")
HUGE = f"zeroblob({16 * LARGEST_PAGE})"
LARGE = f"zeroblob({LARGEST_CELL + 1})"
TABLES = {
    "a table": "CREATE TABLE t (uid, a, b)",
    "a table whose columns have the names of its numbers": "CREATE TABLE t (uid, a, b, _rowid_, rowid)",
}


def made(folder: Path, create: str, *more: str) -> SQLiteSettings:
    """Make a file with three rows, the one in the middle hostile."""
    with sqlite3.connect(folder / "rows.db") as connection:
        for statement in (create, *more):
            connection.execute(statement)
    return SQLiteSettings(path="rows.db", table="t", root=folder, page_size=2)


async def rows_of(settings: SQLiteSettings) -> list[tuple[str | None, ...]]:
    """Return all rows, as they are passed on."""
    source = settings.open(lambda: None)
    found = source.pages(["uid", "a", "b"])
    return [tuple(row.values.values()) async for page in found for row in page]


@pytest.mark.parametrize("create", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("value", [HUGE, f"CAST({HUGE} AS TEXT)", LARGE])
async def test_a_row_that_is_too_large_is_named_and_the_others_are_read(
    tmp_path: Path, create: str, value: str
) -> None:
    rows = f"INSERT INTO t (uid, a, b) VALUES ('one', 1, 2), ('bad', {value}, 4), ('two', 5, 6)"
    settings = made(tmp_path, create, rows)
    with peak_above_idle() as peak:
        found = await rows_of(settings)
    assert sorted(found, key=str) == [
        ("bad", OVERSIZED, "4"),
        ("one", "1", "2"),
        ("two", "5", "6"),
    ]
    assert peak.mib < 60


@pytest.mark.parametrize("create", TABLES.values(), ids=TABLES)
async def test_a_row_of_many_large_values_is_bounded_as_a_whole(
    tmp_path: Path, create: str
) -> None:
    half = f"zeroblob({LARGEST_PAGE - 1000})"
    settings = made(tmp_path, create, f"INSERT INTO t (uid, a, b) VALUES ('bad', {half}, {half})")
    assert await rows_of(settings) == [("bad", OVERSIZED, OVERSIZED)]


@pytest.mark.parametrize(
    "create",
    [
        ("CREATE TABLE x (uid, a, b)", "CREATE VIEW t AS SELECT uid, a, b FROM x"),
        ("CREATE TABLE t (uid PRIMARY KEY, a, b) WITHOUT ROWID",),
    ],
    ids=["a view", "a table without numbers"],
)
async def test_rows_that_cannot_be_read_apart_fail_the_query_and_never_vanish(
    tmp_path: Path, create: tuple[str, ...]
) -> None:
    table = "x" if len(create) > 1 else "t"
    rows = f"INSERT INTO {table} VALUES ('one', 1, 2), ('bad', {HUGE}, 4)"
    settings = made(tmp_path, *create, rows)
    with pytest.raises(ValueTooLarge, match="No row was changed"):
        await rows_of(settings)


async def test_text_that_is_not_utf8_is_the_trouble_of_its_row(tmp_path: Path) -> None:
    rows = "INSERT INTO t (uid, a, b) VALUES ('bad', CAST(x'ff00fe' AS TEXT), 'ä'), ('one', 1, 2)"
    settings = made(tmp_path, TABLES["a table"], rows)
    assert await rows_of(settings) == [("bad", "/wD+", "ä"), ("one", "1", "2")]
