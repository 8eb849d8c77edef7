"""A table in memory that a registry reads, and what goes wrong with it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from unittest.mock import patch

from ctrlruntime.api import ApiModel
from ctrlruntime.envtest.simulation import Simulation
from ctrlruntime.envtest.simulation.process import current
from internal.tenancy.rows import Row
from internal.tenancy.sources import SourceContext, SourceType, catalog
from internal.tenancy.sources.errors import SourceError, TimedOut, Unreachable
from internal.tenancy.sources.source import Page, Source

Values = dict[str, str | None]
TYPE: Final = "memory"
_PAGE: Final = 3
"""Rows of a page: few, so that much happens between two pages."""


class Fields(ApiModel):
    """What a registry says about the table."""

    name: str


class Table:
    """Rows by uid. Whoever reads gets one consistent state of them all."""

    def __init__(self, draws: random.Random, read_anew: Callable[[], None]) -> None:
        """`read_anew` is called when a process got other rows than before."""
        self.rows: dict[str, Values] = {}
        self.answers: dict[str, dict[str, Values]] = {}
        """The rows of the last complete answer, by the identity of the process that got it."""
        self._draws = draws
        self._read_anew = read_anew
        self._trouble: list[Callable[[], None]] = []

    def active(self) -> dict[str, Values]:
        """Return the rows that mean tenants."""
        return active(self.rows)

    async def read(self, columns: Sequence[str]) -> AsyncGenerator[Page, None]:
        """Return all rows in pages."""
        draws = self._draws
        await asyncio.sleep(draws.uniform(0.001, 0.05))
        if self._trouble:
            self._trouble.pop()()
        rows = {uid: dict(values) for uid, values in self.rows.items()}
        listed = [*rows.values()]
        for start in range(0, len(listed), _PAGE):
            await asyncio.sleep(draws.uniform(0.001, 0.05))
            if start and self._trouble:
                self._trouble.pop()()
            page = listed[start : start + _PAGE]
            yield [Row({name: values[name] for name in columns}) for values in page]
        process = current()
        if process is not None:
            if self.answers.get(process.root.identity) != rows:
                self._read_anew()
            self.answers[process.root.identity] = rows

    def fail(self, draw: random.Random) -> str:
        """Let one of the next readings end in an error, at its beginning or between two pages."""
        error = draw.choice([Unreachable, TimedOut, SourceError])

        def trouble() -> None:
            raise error("simulated")

        count = draw.randint(1, 4)
        self._trouble += [trouble] * count
        return f"{error.__name__}, {count} times"


def active(rows: dict[str, Values]) -> dict[str, Values]:
    """Return those that are active."""
    return {uid: values for uid, values in rows.items() if values["active"] == "1"}


@dataclass(frozen=True, slots=True)
class _Settings:
    table: Table

    def open(self, wake: Callable[[], None]) -> Source:
        return _Reader(self.table)


class _Reader:
    def __init__(self, table: Table) -> None:
        self._table = table

    def pages(self, columns: Sequence[str]) -> AsyncGenerator[Page, None]:
        return self._table.read(columns)

    async def close(self) -> None:
        """There is nothing to close."""


def source_type(table: Table) -> SourceType[Fields]:
    """Return a type whose every registry reads this table."""

    async def settings(fields: Fields, context: SourceContext) -> _Settings:
        return _Settings(table)

    return SourceType(TYPE, Fields, settings)


@contextlib.contextmanager
def served(sim: Simulation, table: Table) -> Iterator[None]:
    """Let managers find the type as they find those of installed packages; draw its faults."""
    sim.add_fault("rows", table.fail)
    with patch.object(catalog, "_installed", lambda: iter([source_type(table)])):
        yield
