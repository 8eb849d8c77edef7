"""Each field of the reference's specs: it is in our schema, does what its row has, and what differs is documented."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import yaml

from ctrlruntime.json import Json

from .chain_rows import CHAIN, DISK
from .reference import SPEC_FIELDS
from .row import Row, schema_at
from .schedule_rows import JOB, SCHEDULE
from .spec_rows import NODE_SET, POD

ROOT = Path(__file__).parents[3]
ROWS = (*NODE_SET, *POD, *CHAIN, *DISK, *SCHEDULE, *JOB)
CRDS = {"A1.6": "scheduledvolumesnapshots", "A1.7": "statefuljobs"}
ON_A_SERVER = {"A1.7 selector"}
"""Fields that take a server to be seen: `test_status_fields.py`."""


@cache
def spec_schema(plural: str) -> Json:
    """The schema of `spec` in the CRD that is installed."""
    file = ROOT / "config" / "crd" / "bases" / f"cosmos.ctrlruntime.dev_{plural}.yaml"
    (version,) = yaml.safe_load(file.read_text())["spec"]["versions"]
    return version["schema"]["openAPIV3Schema"]["properties"]["spec"]


def ids(rows: tuple[Row, ...]) -> list[str]:
    return [row.id for row in rows]


LINES = {
    "A1.1": pytest.mark.criterion("COSMOS-A1-1"),
    "A1.2": pytest.mark.criterion("COSMOS-A1-2"),
    "A1.3": pytest.mark.criterion("COSMOS-A1-3"),
    "A1.4": pytest.mark.criterion("COSMOS-A1-4"),
    "A1.6": pytest.mark.criterion("COSMOS-A1-6"),
    "A1.7": pytest.mark.criterion("COSMOS-A1-7"),
}
"""The line of the catalogue that a table is."""
each_row = pytest.mark.parametrize(
    "row", [pytest.param(row, id=row.id, marks=LINES[row.table]) for row in ROWS]
)


def test_the_table_has_every_field_of_the_reference_once() -> None:
    assert sorted([*ids(ROWS), *ON_A_SERVER]) == sorted(
        f"{table} {field}" for table, fields in SPEC_FIELDS.items() for field in fields
    )


@each_row
def test_the_schema_has_the_field_with_its_default_and_its_rules(row: Row) -> None:
    schema, required = schema_at(spec_schema(CRDS.get(row.table, "cosmosfullnodes")), row.path)
    assert {key: schema.get(key) for key in row.rules} == dict(row.rules)
    assert ("default" in schema) is ("default" in row.rules)
    assert required is row.required
    assert schema["description"]


@each_row
def test_the_field_does_what_its_row_has(row: Row) -> None:
    assert row.seen(row.besides) == row.usual
    assert row.seen({**row.besides, **row.given}) == row.shows
    assert (row.shows == row.usual) is row.ignored, "the row would hold without the field"


@pytest.mark.parametrize("row", [row for row in ROWS if row.differs], ids=lambda row: row.id)
def test_what_differs_on_purpose_is_in_the_documents_with_its_reason(row: Row) -> None:
    page = (ROOT / "docs" / "cosmos.md").read_text()
    section = page.partition("## Coming from cosmos-operator")[2].partition("\n## ")[0]
    assert f"`{row.documented_name}`" in section
