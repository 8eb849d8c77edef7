"""What is remembered of registries between passes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ctrlruntime.backoff import exponential
from internal.tenancy.registry.status import Synced
from internal.tenancy.sync.removal_window import Recorded

FIRST_RETRY: Final = 1.0
LAST_RETRY: Final = 300.0


@dataclass(frozen=True, slots=True)
class PlannedFor:
    """What a plan is made with, besides rows, templates and tenants."""

    generation: int
    annotations: tuple[str | None, ...]
    """The approval of deletions, and the freeze that does not hold the registry."""
    removals: int
    """Removals in the window of the deletion guard."""


@dataclass(slots=True)
class RegistryState:
    """What is remembered of one registry."""

    synced: Synced = field(default_factory=Synced)
    query_due: float = 0.0
    columns_due: float = 0.0
    """When the columns of the table are read again, at the query that follows."""
    replan: bool = True
    failures: int = 0
    retry_due: float = float("inf")
    """When to try again what could not be written."""
    rollout_due: float = float("inf")
    """When a deadline, a soak, a window or a freeze changes what may be done."""
    refusals: int = 0
    generation: int = -1
    planned_for: PlannedFor | None = None
    released: frozenset[str] = frozenset()
    """Tenants whose deletion was approved and that could not be deleted yet."""
    recorded: Recorded | None = None
    """What its status was last written with of removals."""
    proved: bool = False
    """Whether the server showed that no older status was put back before this process had `recorded`."""
    handled: str | None = None
    status_at: float = float("-inf")

    def needs_plan(self, planned_for: PlannedFor, now: float) -> bool:
        """Return whether to plan again, and record what the next plan is made with."""
        self.replan |= self.planned_for != planned_for or now >= self.retry_due
        self.replan |= now >= self.rollout_due
        self.planned_for = planned_for
        return self.replan and self.synced.reading is not None

    def record_refusals(self, refused: Sequence[str], now: float) -> None:
        """Schedule another try of writes that failed, with growing delays, whenever the next query is."""
        self.refusals = min(self.refusals + 1, 16) if refused else 0
        failures = self.refusals - 1
        delay = exponential(FIRST_RETRY, LAST_RETRY, failures) if refused else float("inf")
        self.retry_due = now + delay

    @property
    def due(self) -> float:
        """When the next pass begins without an event."""
        return min(self.query_due, self.retry_due, self.rollout_due)
