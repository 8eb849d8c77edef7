"""The interface of data sources, and what they share."""

from __future__ import annotations

import base64
from collections.abc import AsyncGenerator, Sequence
from typing import Protocol, runtime_checkable

from internal.tenancy.rows.row import Row

Page = list[Row]

LARGEST_PAGE = 8 * 1024 * 1024
"""A page ends after so many characters, however few rows that is."""


class Source(Protocol):
    """A table that can be read again and again. One is kept per registry while its settings last."""

    def pages(self, columns: Sequence[str]) -> AsyncGenerator[Page, None]:
        """All rows, inactive ones included, in pages, from one consistent snapshot.

        `columns` names what is read. The order has no meaning, and may be another one at each reading.
        Raises SourceError. A reader that stops early closes the iterator
        (`contextlib.aclosing`), or a connection stays taken.
        """

    async def close(self) -> None:
        """Close all connections."""


@runtime_checkable
class ListsColumns(Protocol):
    """A source that lists the columns of its table. Without it they are unknown, which refuses nothing."""

    async def column_names(self) -> Sequence[str]:
        """Return the columns that the user may read. Raises SourceError."""


@runtime_checkable
class KeepsPosition(Protocol):
    """A source that remembers how far it was read, so that a server that lags behind is not read."""

    @property
    def position(self) -> str:
        """How far it was read, as text for `resume`; empty if that is unknown."""

    def resume(self, position: str) -> None:
        """Read nothing older than a position that such a source had; of several given one after another the furthest counts. Text that is none counts for nothing."""


def text(value: object) -> str | None:
    """Return a column's value as templates see it: text; base64 for bytes that are not UTF-8; NULL is None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        octets = bytes(value)
        try:
            return octets.decode()
        except UnicodeDecodeError:
            return base64.b64encode(octets).decode()
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return f"{value:.1f}"
    return str(value)


def size(values: Sequence[str | None]) -> int:
    """Characters of a row."""
    return sum(len(value) for value in values if value is not None)
