"""Writes the state of each row's tenants to a column that the registry names: `spec.source.writeBack`.

It goes on beside the reconciles and never holds one up. Each state is written once, when it changes: in batches
of one UPDATE each, with the interval of the registry between two of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import nsmallest
from typing import Final

import structlog
from structlog.typing import FilteringBoundLogger

from apis.tenancy import TenantRegistry, TenantRegistrySpec
from ctrlruntime.backoff import exponential
from ctrlruntime.cache.entry import Entry
from ctrlruntime.queue import Request
from internal.tenancy.rows.row import Reading, columns
from internal.tenancy.shared.slices import SLICE
from internal.tenancy.shared.tally import TenantState
from internal.tenancy.shared.tenant_counts import state_of
from internal.tenancy.sources import SourceError
from internal.tenancy.sources.state_writer import InvalidWriteBack, StateWriter

_log: FilteringBoundLogger = structlog.get_logger("tenancy.write_back")

BATCH: Final = 500
"""Rows of one UPDATE."""
LAST_RETRY: Final = 300.0
"""Seconds between two attempts that fail, at most."""
WRITE_BACK_COLUMN: Final = "spec.source.writeBack.column"
PAUSE: Final = 200
"""Tenants looked at before other tasks get a turn: about 5 ms."""


class RowState(StrEnum):
    """What is written of a row, the first that fits."""

    FAILED = "Failed"
    """A tenant of it has failed."""
    REMOVING = "Removing"
    """A tenant of it is being deleted."""
    PENDING = "Pending"
    """A tenant of it is not ready, or not there yet."""
    READY = "Ready"
    """All its tenants are ready."""
    REMOVED = "Removed"
    """Its tenants are gone, and it is inactive."""


_OF_TENANT: Final[Mapping[TenantState, RowState]] = {
    TenantState.FAILED: RowState.FAILED,
    TenantState.PENDING: RowState.PENDING,
    TenantState.READY: RowState.READY,
}
_ORDER: Final = {state: place for place, state in enumerate(RowState)}


@dataclass(frozen=True, slots=True)
class WriteBackOutcome:
    """What became of the last batch: the reason and message of a condition."""

    succeeded: bool = True
    reason: str = "Written"
    message: str = "The states of all rows are written."


@dataclass(slots=True)
class _Registry:
    """What is remembered of one registry."""

    registry: TenantRegistry
    reading: Reading
    offered: bool = True
    due: float = float("-inf")
    failures: int = 0
    written: dict[str, str] = field(default_factory=dict)
    outcome: WriteBackOutcome | None = None
    task: asyncio.Task[None] | None = None


@dataclass(slots=True)
class WriteBacks:
    """Writes states of the registries that request it."""

    tenants: Callable[[TenantRegistry], Iterable[Entry]]
    """Returns the tenants that a registry made, from the cache."""
    open: Callable[[Request, TenantRegistry], Awaitable[StateWriter]]
    """Opens the writer of a registry. Raises SourceError."""
    on_outcome: Callable[[Request], None]
    """Is called when the outcome changes."""
    monotonic: Callable[[], float]
    _known: dict[Request, _Registry] = field(default_factory=dict)

    def offer(self, request: Request, registry: TenantRegistry, reading: Reading | None) -> None:
        """Have the states written that differ from those written before; return at once."""
        if registry.spec.source.write_back is None:
            self.forget(request)
            return
        if reading is None:
            return
        known = self._known.get(request)
        if known is None or _place(known.registry) != _place(registry):
            self.forget(request)
            known = self._known[request] = _Registry(registry, reading)
        known.registry, known.reading, known.offered = registry, reading, True
        if known.task is None or known.task.done():
            known.task = asyncio.create_task(self._run(request, known))

    def outcome(self, request: Request) -> WriteBackOutcome | None:
        """Return what became of the last batch; None before the first, and without write-back."""
        known = self._known.get(request)
        return None if known is None else known.outcome

    def forget(self, request: Request) -> None:
        """Stop writing for a registry."""
        known = self._known.pop(request, None)
        if known is not None and known.task is not None:
            known.task.cancel()

    async def close(self) -> None:
        """Stop writing."""
        tasks = [known.task for known in self._known.values() if known.task is not None]
        for request in list(self._known):
            self.forget(request)
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, request: Request, known: _Registry) -> None:
        """Write until all is written. An error is retried with growing delays."""
        while known.offered:
            known.offered = False
            await asyncio.sleep(max(0.0, known.due - self.monotonic()))
            before = known.outcome
            known.outcome = await self._attempt(request, known)
            delay = _period(known.registry)
            if known.outcome.succeeded:
                known.failures = 0
            else:
                delay = exponential(delay, max(delay, LAST_RETRY), known.failures)
                known.failures = min(known.failures + 1, 16)
                known.offered = True
            known.due = self.monotonic() + delay
            if known.outcome != before:
                self.on_outcome(request)

    async def _attempt(self, request: Request, known: _Registry) -> WriteBackOutcome:
        try:
            known.offered |= await self._write(request, known)
        except SourceError as error:
            return WriteBackOutcome(False, error.reason, f"No state is written: {error}")
        except Exception:  # noqa: BLE001 - a writer of a package may raise anything
            _log.exception("Write-back failed", registry=request.name, namespace=request.namespace)
            message = "No state is written: an error that the log of the manager has"
            return WriteBackOutcome(False, "WriteBackFailed", message)
        return WriteBackOutcome()

    async def _write(self, request: Request, known: _Registry) -> bool:
        """Write one batch. Return whether there are more. Raises SourceError."""
        if problem := write_back_problem(known.registry.spec):
            raise InvalidWriteBack(f"{WRITE_BACK_COLUMN}: {problem}")
        states = await self._states(known)
        if len(states) > SLICE:
            await asyncio.sleep(0)
        changed = [uid for uid, state in states.items() if known.written.get(uid) != state]
        for uid in known.written.keys() - states.keys():
            del known.written[uid]
        batch = {uid: states[uid].value for uid in nsmallest(BATCH, changed)}
        if not batch:
            return False
        writer = await self.open(request, known.registry)
        try:
            await writer.write(batch)
        finally:
            await writer.close()
        known.written.update(batch)
        return len(changed) > len(batch)

    async def _states(self, known: _Registry) -> dict[str, RowState]:
        """Return the state of each row that has tenants, or should have some, or had some."""
        found: dict[str, RowState] = {}
        for place, entry in enumerate(self.tenants(known.registry), 1):
            uid = str((entry.field("spec") or {}).get("uid", ""))
            state = _state(entry)
            if uid not in found or _ORDER[state] < _ORDER[found[uid]]:
                found[uid] = state
            if place % PAUSE == 0:
                await asyncio.sleep(0)
        for place, row in enumerate(known.reading.active, 1):
            found.setdefault(row.uid, RowState.PENDING)
            if place % SLICE == 0:
                await asyncio.sleep(0)
        for uid in known.written.keys() & known.reading.inactive:
            found.setdefault(uid, RowState.REMOVED)
        return found


def _state(entry: Entry) -> RowState:
    return (
        RowState.REMOVING if entry.deletion_timestamp is not None else _OF_TENANT[state_of(entry)]
    )


def _period(registry: TenantRegistry) -> float:
    """Return the seconds between two batches of a registry."""
    fields = registry.spec.source.write_back
    return LAST_RETRY if fields is None else float(fields.interval_seconds)


def _place(registry: TenantRegistry) -> tuple[object, ...]:
    """Return what decides where states go: where it changes, all are written again."""
    source = registry.spec.source.to_wire()
    source.pop("syncInterval", None)
    return registry.metadata.uid, source, registry.spec.value_mappings.uid


def write_back_problem(spec: TenantRegistrySpec) -> str:
    """Return why the column may not be written, empty if it may."""
    fields = spec.source.write_back
    if fields is None or fields.column.casefold() not in {
        each.casefold() for each in columns(spec)
    }:
        return ""
    return (
        f"{fields.column!r} is read by a mapping, so that a state written there "
        "would change the tenants again; name a column that no mapping has"
    )
