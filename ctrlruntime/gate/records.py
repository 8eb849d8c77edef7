"""Where the record of a budget is kept, so that it outlives restarts and counts for two managers at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final, Protocol

from ctrlruntime.gate.gate import Decision, Gate, ParentState
from ctrlruntime.gate.removal import Removal

ATTEMPTS: Final = 5


class RecordChanged(Exception):
    """The record was stored by another since it was read."""


class RecordStore(Protocol):
    """Keeps the record of one parent, such as in its status."""

    async def load(self) -> tuple[ParentState, str]:
        """Return what is known of the parent, read live, and the version that `save` requires."""
        ...

    async def save(self, record: dict[str, dict[str, int]], version: str) -> None:
        """Store the record. Raises RecordChanged if the parent has another version."""
        ...


async def decide(
    gate: Gate, removals: Sequence[Removal], store: RecordStore, clock: Callable[[], datetime]
) -> Decision:
    """Decide on a set, and store the record before a permit is returned.

    Raises RecordChanged if others store theirs each time, and what the store raises: nothing is permitted then.
    """
    for attempt in range(ATTEMPTS):
        parent, version = await store.load()
        decision = gate.removals(removals, now=clock(), parent=parent)
        if decision.record == parent.record:
            return decision
        try:
            await store.save(decision.record.to_dict(), version)
        except RecordChanged:
            if attempt + 1 == ATTEMPTS:
                raise
            continue
        return decision
    raise RecordChanged  # pragma: no cover
