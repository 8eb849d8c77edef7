"""When a registry's rows are read again, and what a query that fails changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from apis.tenancy import TenantRegistry
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.backoff import exponential
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller.annotations import requested
from ctrlruntime.controller.reconcile import reconcile_context
from ctrlruntime.events import EventRecorder
from ctrlruntime.queue import Request
from internal.tenancy.registry.state import FIRST_RETRY, RegistryState
from internal.tenancy.rows.row import Reading, mapping_problems
from internal.tenancy.shared.slices import let_go
from internal.tenancy.sources import SourceError
from internal.tenancy.sources.errors import UnknownColumn
from internal.tenancy.sources.queries import Queries, seconds_between

BREATH: Final = 100
"""Rows that are compared before other tasks get a turn."""

COLUMNS_PERIOD: Final = 600.0
"""Seconds after which the columns of a table are read again, besides after changes of the registry."""


class MappingError(SourceError):
    """The registry's mappings cannot be used."""

    reason = "InvalidMappings"


@dataclass(slots=True)
class QuerySchedule:
    """Reads a registry's rows once per sync period, after changes, and on request."""

    queries: Queries
    recorder: EventRecorder
    monotonic: Callable[[], float]

    async def query_if_due(
        self, request: Request, registry: TenantRegistry, entry: Entry, state: RegistryState
    ) -> None:
        """Read the rows if it is time to. A failing query changes the state's error and nothing else."""
        asked = requested(entry.annotations)
        changed = state.generation != entry.generation or state.handled != asked
        if not changed and self.monotonic() < state.query_due:
            return
        state.generation, state.handled = entry.generation, asked
        period = seconds_between(registry.spec.source)
        try:
            problems = mapping_problems(registry.spec)
            if problems:
                raise MappingError("; ".join(problems))
            reading = await self.queries.run(request, registry)
        except SourceError as error:
            if isinstance(error, UnknownColumn):
                await self._read_columns(request, registry, state)
            elif changed:
                state.synced.columns = ()  # they may be those of another table
            self._record_failure(registry, state, error)
            state.query_due = self.monotonic() + exponential(FIRST_RETRY, period, state.failures)
            state.failures = min(state.failures + 1, 16)
            return
        if changed or state.failures or self.monotonic() >= state.columns_due:
            await self._read_columns(request, registry, state)
        state.failures = 0
        state.query_due = self.monotonic() + period
        same = await is_same(state.synced.reading, reading)
        if state.synced.troubles or not same:
            state.replan = True
        state.synced.position = self.queries.position(request)
        state.synced.advanced |= not same
        state.synced.error = None
        # Where both are the same the first is kept: the last plan holds its rows.
        former = reading if same else state.synced.reading
        if not same:
            state.synced.reading = reading
        if former is not None:
            rows = [*former.active, *former.invalid, *former.doubtful]
            del former, reading
            await let_go(rows)

    async def _read_columns(
        self, request: Request, registry: TenantRegistry, state: RegistryState
    ) -> None:
        """Read which columns the table has: admission compares mappings and templates with them."""
        state.columns_due = self.monotonic() + COLUMNS_PERIOD
        state.synced.columns = await self.queries.column_names(request, registry)

    def _record_failure(
        self, registry: TenantRegistry, state: RegistryState, error: SourceError
    ) -> None:
        before = find_condition(registry.status.conditions, "Ready")
        if before is None or before.reason != error.reason:
            self.recorder.event(
                registry, "Warning", "DatabaseQueryFailed", "Query", f"{error.reason}: {error}"
            )
        reconcile_context().logger.warning("Query failed", reason=error.reason, message=str(error))
        state.synced.error = error

    async def forget(self, request: Request) -> None:
        """Close the connections of a registry that is gone."""
        await self.queries.forget(request)


async def is_same(before: Reading | None, after: Reading) -> bool:
    """Return whether a query found what the one before it did; without one before, it did not.

    Other tasks get turns: 10,000 rows take 60 ms.
    """
    if before is None:
        return False
    counts = [replace(each, active=(), invalid=(), doubtful=()) for each in (before, after)]
    return (
        counts[0] == counts[1]
        and await _are_equal(before.active, after.active)
        and await _are_equal(before.invalid, after.invalid)
        and await _are_equal(before.doubtful, after.doubtful)
    )


async def _are_equal(before: Sequence[object], after: Sequence[object]) -> bool:
    if len(before) != len(after):
        return False
    for start in range(0, len(before), BREATH):
        if before[start : start + BREATH] != after[start : start + BREATH]:
            return False
        await asyncio.sleep(0)
    return True
