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
from internal.tenancy.rows.row import Row
from internal.tenancy.sources import SourceContext, SourceType, catalog
from internal.tenancy.sources.errors import SourceError, TimedOut, Unreachable
from internal.tenancy.sources.source import Page, Source

Values = dict[str, str | None]
Rows = dict[str, Values]
TYPE: Final = "memory"
_PAGE: Final = 3
"""Rows of a page: few, so that much happens between two pages."""
_REMEMBERED: Final = 5
"""Former states of the table that a replica may still have."""
_INACTIVE: Final = ("0", "")


class Fields(ApiModel):
    """The table of a registry."""

    name: str


class Table:
    """Rows by uid. Whoever reads gets one consistent state of them all, right or wrong."""

    def __init__(self, draws: random.Random, read_anew: Callable[[], None]) -> None:
        """`read_anew` is called when a process got other rows than before."""
        self.rows: Rows = {}
        self.answers: dict[str, Rows] = {}
        """The rows of the last complete answer, by the identity of the process that got it."""
        self._draws = draws
        self._read_anew = read_anew
        self._trouble: list[Callable[[Rows], Rows]] = []
        self._former: list[Rows] = []

    def active(self) -> Rows:
        """Return the rows that mean tenants."""
        return {uid: values for uid, values in self.rows.items() if values["active"] == "1"}

    async def read(self, columns: Sequence[str]) -> AsyncGenerator[Page, None]:
        """Return all rows in pages."""
        draws = self._draws
        await asyncio.sleep(draws.uniform(0.001, 0.05))
        rows = {uid: dict(values) for uid, values in self.rows.items()}
        if not self._former or self._former[-1] != rows:
            self._former = [*self._former[1 - _REMEMBERED :], rows]
        trouble = self._trouble.pop() if self._trouble else None
        late = trouble is not None and draws.random() < 0.5
        if trouble is not None and not late:
            rows = trouble(rows)
        listed = [*rows.values()]
        for start in range(0, len(listed), _PAGE):
            await asyncio.sleep(draws.uniform(0.001, 0.05))
            page = listed[start : start + _PAGE]
            yield [Row({name: values[name] for name in columns}) for values in page]
            if trouble is not None and late:
                trouble(rows)  # an error between two pages; what else there is comes too late
        process = current()
        if process is not None:
            if self.answers.get(process.root.identity) != rows:
                self._read_anew()
            self.answers[process.root.identity] = rows

    # -- what goes wrong -------------------------------------------------------------------------------

    def fail(self, draw: random.Random) -> str:
        """Let some readings end in an error, at their beginning or between two pages."""
        error = draw.choice([Unreachable, TimedOut, SourceError])

        def trouble(_: Rows) -> Rows:
            raise error("simulated")

        return self._will(trouble, draw, error.__name__)

    def empty(self, draw: random.Random) -> str:
        """Let some readings find nothing."""
        return self._will(lambda _: {}, draw, "empty")

    def truncate(self, draw: random.Random) -> str:
        """Let some readings find some of the rows."""
        share = draw.random()
        return self._will(
            lambda rows: dict([*rows.items()][: int(share * len(rows))]), draw, f"{share:.0%}"
        )

    def lag(self, draw: random.Random) -> str:
        """Let some readings be answered by a replica that is behind."""
        behind = draw.randint(2, _REMEMBERED)
        return self._will(
            lambda _: {**self._former[-min(behind, len(self._former))]}, draw, f"{behind} behind"
        )

    def _will(self, trouble: Callable[[Rows], Rows], draw: random.Random, what: str) -> str:
        count = draw.choice((1, 1, 2, 5))
        self._trouble += [trouble] * count
        return f"{what}, {count} times"

    def recover(self) -> None:
        """Answer rightly from now on."""
        self._trouble.clear()


def staying(rows: Rows) -> Rows:
    """Return the rows whose tenants stay: all but those that are clearly inactive."""
    return {uid: values for uid, values in rows.items() if values["active"] not in _INACTIVE}


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
    for kind in ("fail", "empty", "truncate", "lag"):
        sim.add_fault(f"rows {kind}", getattr(table, kind))
    with patch.object(catalog, "_installed", lambda: iter([source_type(table)])):
        yield
