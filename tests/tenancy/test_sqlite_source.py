"""Rows of an SQLite file: read-only, inside one allowed directory, and only with the flag."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from internal.tenancy.sources import SourceError, SQLiteSettings, SQLiteSource
from internal.tenancy.sources.errors import NotAllowed, UnknownColumn, UnknownTable, Unreachable
from tests.docs.blocks import ROOT


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "data"
    root.mkdir()
    with sqlite3.connect(root / "rows.db") as connection:
        connection.execute("CREATE TABLE t (id TEXT, active INTEGER, price REAL, raw BLOB)")
        connection.executemany(
            "INSERT INTO t VALUES (?, ?, ?, ?)",
            [("b", 1, 1.5, b"abc"), ("a", 0, 2.0, b"\xff\x00"), (None, 1, None, None)],
        )
    connection.close()
    return root


def source(root: Path | None, path: str = "rows.db", table: str = "t") -> SQLiteSource:
    return SQLiteSource(SQLiteSettings(path=path, table=table, root=root, page_size=2))


def listing(root: Path) -> list[str]:
    return [path.name for path in root.iterdir()]


async def rows(found: SQLiteSource, *columns: str) -> list[list[tuple[str | None, ...]]]:
    return [
        [tuple(row.values[column] for column in columns) for row in page]
        async for page in found.pages(columns)
    ]


@pytest.mark.criterion("DATA-SQLITE")
async def test_rows_come_in_pages_as_text(root: Path) -> None:
    assert await rows(source(root), "id", "active", "price", "raw") == [
        [(None, "1", None, None), ("a", "0", "2.0", "/wA=")],
        [("b", "1", "1.5", "abc")],
    ]


@pytest.mark.criterion("BAD-COLUMN")
async def test_a_wrong_column_is_an_error_and_never_a_text(root: Path) -> None:
    with pytest.raises(UnknownColumn, match="'nope'"):
        await rows(source(root), "id", "nope")


@pytest.mark.criterion("BAD-TABLE")
async def test_a_wrong_table_is_an_error(root: Path) -> None:
    with pytest.raises(UnknownTable):
        await rows(source(root, table='t" --'), "id", "active")


@pytest.mark.criterion("SQLITE-FLAG")
async def test_without_the_flag_nothing_is_opened() -> None:
    with pytest.raises(NotAllowed, match="--allow-sqlite"):
        await rows(source(None), "id", "active")


@pytest.mark.criterion("SQLITE-PATH")
@pytest.mark.parametrize("path", ["../outside.db", "link.db", "/etc/passwd"])
async def test_no_file_outside_the_directory_is_read(root: Path, path: str) -> None:
    outside = root.parent / "outside.db"
    sqlite3.connect(outside).close()
    outside.touch()
    (root / "link.db").symlink_to(outside)
    with pytest.raises(NotAllowed):
        await rows(source(root, path), "id", "active")


@pytest.mark.criterion("SQLITE-PATH")
@pytest.mark.parametrize("path", ["absent.db", ".", "rows.db?mode=rwc", "a\0b", "text.db"])
async def test_what_is_no_database_file_is_reported(root: Path, path: str) -> None:
    (root / "text.db").write_text(
        "this is not a database, but long enough to be taken for one" * 20
    )
    with pytest.raises(Unreachable):
        await rows(source(root, path), "id", "active")


@pytest.mark.criterion("SQLITE-READONLY")
async def test_the_file_is_never_written(root: Path) -> None:
    before = (root / "rows.db").read_bytes()
    with pytest.raises(SourceError):
        await rows(source(root, table="t; DELETE FROM t"), "id", "active")
    await rows(source(root), "id", "active")
    assert (root / "rows.db").read_bytes() == before
    assert listing(root) == ["rows.db"]


MEBIBYTE = 1024 * 1024
MEASURED = """
import asyncio, resource, sys
from pathlib import Path
from internal.tenancy.sources import SQLiteSettings, SQLiteSource

async def read() -> None:
    settings = SQLiteSettings(path="big.db", table="t", root=Path(sys.argv[1]))
    sizes = []
    try:
        async for page in SQLiteSource(settings).pages(("id", "raw")):
            sizes.append(len(page))
    except Exception as error:
        print(type(error).__name__, error)
    print(len(sizes), sum(sizes))

resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]), resource.RLIM_INFINITY))
asyncio.run(read())
"""


def big(root: Path, rows: int, mebibytes: int) -> None:
    """A table whose values are large; SQLite makes them itself."""
    with sqlite3.connect(root / "big.db") as connection:
        connection.execute("CREATE TABLE t (id TEXT, raw TEXT)")
        for number in range(rows):
            value = "CAST(zeroblob(?) AS TEXT)" if mebibytes > 8 else "hex(zeroblob(? / 2))"
            connection.execute(
                f"INSERT INTO t VALUES (?, {value})", (str(number), mebibytes * MEBIBYTE)
            )
    connection.close()


def measured(root: Path, limit: int) -> str:
    """Read the table in a process whose address space is limited; what it printed."""
    command = [sys.executable, "-c", MEASURED, str(root), str(limit * MEBIBYTE)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return result.stdout + result.stderr


@pytest.mark.criterion("H-D4")
def test_h_d4_a_value_of_300_mb_fails_the_query_before_it_is_loaded(root: Path) -> None:
    big(root, rows=1, mebibytes=300)
    printed = measured(root, 500)
    assert "ValueTooLarge table 't' has a row of more than 8 MiB" in printed
    assert "MemoryError" not in printed


@pytest.mark.criterion("H-D4")
def test_h_d4_a_page_ends_by_weight_as_well_as_by_rows(root: Path) -> None:
    big(root, rows=400, mebibytes=1)
    printed = measured(root, 900)
    pages, rows = map(int, printed.split())
    assert rows == 400
    assert pages == 50
