"""docs/how-to/views.md: its statements work on every database, and a row is lost for no missing join."""

from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from apis.tenancy import TenantRegistrySpec
from internal.tenancy.rows.row import RowReader, columns
from internal.tenancy.sources import MySQLSettings, PostgreSQLSettings, Settings, SQLiteSettings
from tests.docs.blocks import ROOT

PAGE = (ROOT / "docs" / "how-to" / "views.md").read_text()
ROWS = (
    "INSERT INTO plans VALUES (1, 'pro', 3), (2, 'free', 1)",
    (
        "INSERT INTO customers VALUES (1, 'Acme', 1, 'paid', 'eu,us'), (2, 'globex', 2, 'trial', ''),"
        " (3, 'lost', 9, 'paid', NULL), (4, 'left', 1, 'closed', NULL), (5, NULL, 1, 'paid', NULL)"
    ),
)
Made = Callable[[str], Settings]
_numbers = itertools.count()


def statements() -> list[str]:
    """The statements of the page that every database takes."""
    lines = [line[4:] for line in PAGE.splitlines() if line.startswith("    ")]
    found = [each.strip() for each in "\n".join(lines).split(";") if each.strip()]
    return [each for each in found if each.startswith(("CREATE TABLE", "CREATE VIEW"))]


def on_sqlite(folder: Path) -> Made:
    with sqlite3.connect(folder / "rows.db") as connection:
        for statement in (*statements(), *ROWS):
            connection.execute(statement)
    connection.close()
    return lambda view: SQLiteSettings(path="rows.db", table=view, root=folder)


@pytest.fixture(params=["sqlite", "mysql", "postgresql"])
def read(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    if request.param == "sqlite":
        return on_sqlite(tmp_path)
    server = request.getfixturevalue("mariadb" if request.param == "mysql" else "postgres")
    database = f"views{next(_numbers)}"
    server.execute(f"CREATE DATABASE {database}")
    server.execute(*statements(), *ROWS, database=database)
    settings = MySQLSettings if request.param == "mysql" else PostgreSQLSettings
    return lambda view: settings(
        host=server.host,
        port=server.port,
        username=server.user,
        password=server.password,
        database=database,
        table=view,
    )


async def rows_of(settings: Settings) -> dict[str, tuple[bool, Mapping[str, str]]]:
    """Return whether each row is active, and its variables."""
    spec = TenantRegistrySpec.model_validate(
        {
            "source": {"type": "sqlite", "sqlite": {"path": "p", "table": "t"}},
            "valueMappings": {"uid": "tenant_id", "activate": "is_active"},
            "extraValueMappings": {name: name for name in ("plan", "replicas", "regions")},
        }
    )
    source, reader = settings.open(lambda: None), RowReader(spec)
    try:
        async for page in source.pages(columns(spec)):
            for row in page:
                reader.take(row)
    finally:
        await source.close()
    reading = reader.reading()
    active = {row.uid: (True, row.variables) for row in reading.active}
    return active | {uid: (False, {}) for uid in reading.inactive}


def test_the_page_has_its_statements() -> None:
    assert [each.split("(")[0].split(" AS")[0].strip() for each in statements()] == [
        "CREATE TABLE customers",
        "CREATE TABLE plans",
        "CREATE VIEW tenants",
        "CREATE VIEW paying_tenants",
    ]


@pytest.mark.criterion("VIEWS")
async def test_a_missing_plan_loses_no_row_and_an_inactive_customer_is_one(read: Made) -> None:
    found = await rows_of(read("tenants"))
    assert {name: active for name, (active, _) in found.items()} == {
        "acme": True,
        "globex": True,
        "lost": True,
        "left": False,
    }
    assert found["lost"][1]["plan"] == ""
    acme = found["acme"][1]
    assert (acme["plan"], acme["replicas"], acme["regions"]) == ("pro", "3", "eu,us")


@pytest.mark.criterion("VIEWS")
async def test_a_view_of_a_view_filters(read: Made) -> None:
    assert set(await rows_of(read("paying_tenants"))) == {"acme", "left"}
