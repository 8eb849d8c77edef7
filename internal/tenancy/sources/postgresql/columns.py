"""Columns of a table: what is selected for each type, and how a line of COPY becomes a row's text.

The server turns every value into text and cuts it where it would be refused anyway, so that a row of
gigabytes is never sent. Only what MySQL and SQLite give in another form is turned here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from internal.tenancy.sources.limits import OVERSIZED
from internal.tenancy.sources.source import text

LONGEST: Final = 1024 * 1024 + 1
"""Characters of a value that are read: more than any row may have, see LARGEST_VALUE."""

MOST_BITS: Final = 8192
"""Bits of a number that is read."""

COLUMNS: Final = """
WITH RECURSIVE base (name, type, category, inside) AS (
    SELECT a.attname, t.typname, t.typcategory, t.typbasetype
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
    WHERE a.attrelid = pg_catalog.to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped
  UNION ALL
    SELECT b.name, t.typname, t.typcategory, t.typbasetype
    FROM base b JOIN pg_catalog.pg_type t ON t.oid = b.inside
)
SELECT name::text, type::text, category::text FROM base WHERE inside = 0
"""
"""Columns of a relation with the type below their domains; `$1` is its quoted name."""


class ColumnKind(StrEnum):
    """How a column's values are read."""

    BOOLEAN = "boolean"
    BYTES = "bytes"
    BITS = "bits"
    MOMENT = "moment"
    STRUCTURE = "structure"
    TEXT = "text"


_BY_TYPE: Final[Mapping[str, ColumnKind]] = {
    "bool": ColumnKind.BOOLEAN,
    "bytea": ColumnKind.BYTES,
    "bit": ColumnKind.BITS,
    "varbit": ColumnKind.BITS,
    "timestamp": ColumnKind.MOMENT,
    "timestamptz": ColumnKind.MOMENT,
}


def kind_of(type_name: str, category: str) -> ColumnKind:
    """Return the kind of a type by its name and category in `pg_type`: A is an array, C a composite type."""
    if category in ("A", "C"):
        return ColumnKind.STRUCTURE
    return _BY_TYPE.get(type_name, ColumnKind.TEXT)


def select(table: str, columns: Mapping[str, ColumnKind]) -> str:
    """Return the one statement: mapped columns only, all as text, in a stable order of bytes."""
    names = [f"c{number}" for number in range(len(columns))]
    listed = ", ".join(
        f"{_expression(quote(column), kind)} AS {name}"
        for name, (column, kind) in zip(names, columns.items(), strict=True)
    )
    order = ", ".join(f'{name} COLLATE pg_catalog."C" NULLS FIRST' for name in names)
    return f"SELECT * FROM (SELECT {listed} FROM {relation(table)} AS r) AS t ORDER BY {order}"  # noqa: S608


def relation(table: str) -> str:
    """Return a table with or without its schema, quoted."""
    return ".".join(quote(part) for part in table.split(".", 1))


def quote(identifier: str) -> str:
    """Return an identifier in double quotes, its own doubled."""
    return '"' + identifier.replace("\0", "").replace('"', '""') + '"'


def _expression(column: str, kind: ColumnKind) -> str:
    value = f"r.{column}"
    if kind is ColumnKind.BOOLEAN:
        return f"CASE WHEN {value} THEN '1' WHEN NOT {value} THEN '0' END"
    if kind is ColumnKind.BYTES:
        return f"pg_catalog.encode(pg_catalog.substring({value}, 1, {LONGEST}), 'hex')"
    if kind is ColumnKind.STRUCTURE:
        value = f"pg_catalog.to_jsonb({value})"
    return f'pg_catalog."left"({value}::pg_catalog.text, {LONGEST})'


def values(line: bytes, kinds: Sequence[ColumnKind]) -> list[str | None]:
    """Return the values of one line of `COPY ... TO STDOUT` in the text format."""
    parts = line.split(b"\t")
    return [
        None if part == rb"\N" else _value(_unescaped(part), kind)
        for part, kind in zip(parts, kinds, strict=True)
    ]


def _value(octets: bytes, kind: ColumnKind) -> str | None:
    if kind is ColumnKind.BYTES:
        return text(bytes.fromhex(octets.decode("ascii")))
    value = text(octets)
    if value is None or kind in (ColumnKind.BOOLEAN, ColumnKind.TEXT, ColumnKind.STRUCTURE):
        return value
    return _number(value) if kind is ColumnKind.BITS else _moment(value)


def _number(bits: str) -> str:
    """Return the number that bits are; those of a longer one than Python writes are too large."""
    return str(int(bits or "0", 2)) if len(bits) <= MOST_BITS else OVERSIZED


def _moment(value: str) -> str:
    """Return a time of the ISO style in UTC as RFC 3339; infinities and years before 1 stay as they are."""
    day, space, clock = value.partition(" ")
    if not space or value.endswith("BC"):
        return value
    return f"{day}T{clock.removesuffix('+00')}Z"


_ESCAPES: Final[Mapping[bytes, bytes]] = {
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
    b"v": b"\v",
}


def _unescaped(part: bytes) -> bytes:
    if b"\\" not in part:
        return part
    return re.sub(rb"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), part, flags=re.DOTALL)
