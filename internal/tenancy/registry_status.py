"""The status of a registry: counts, rows and conditions. Pure; the clock is passed in."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from apis.tenancy import RowCounts, TenantRegistryStatus
from ctrlruntime.api.conditions import Condition, set_condition
from internal.tenancy.plan import Plan
from internal.tenancy.rows import Reading
from internal.tenancy.sources import SourceError
from internal.tenancy.tally import Counts

LONGEST_MESSAGE = 1024
MOST_LISTED = 5


@dataclass(slots=True, kw_only=True)
class Synced:
    """What is known after the last syncs of a registry."""

    reading: Reading | None = None
    error: SourceError | None = None
    """Set while the last query failed; the reading is then the last good one."""
    plan: Plan | None = None
    templates: int = 0
    troubles: Sequence[str] = field(default_factory=tuple)
    """Tenants that could not be written, one sentence each."""


def registry_status(
    previous: TenantRegistryStatus,
    synced: Synced,
    counts: Counts,
    *,
    generation: int,
    handled: str,
    now: datetime,
) -> TenantRegistryStatus:
    """The status to write; what a failing database leaves unknown stays as it was."""
    status = previous.model_copy(deep=True)
    status.observed_generation = generation
    status.ready, status.failed = counts.ready, counts.failed
    status.last_handled_reconcile = handled
    if synced.plan is not None and synced.reading is not None:
        status.referencing_templates = synced.templates
        status.desired = synced.plan.desired
        status.rows = _rows(synced.reading)
    changed = status != previous
    for condition in _conditions(synced):
        condition.observed_generation = generation
        changed |= set_condition(status.conditions, condition, now)
    if changed and synced.error is None and synced.reading is not None:
        status.last_sync_time = now.replace(microsecond=0)
    return status


def _rows(reading: Reading) -> RowCounts:
    return RowCounts(
        total=reading.total,
        active=len(reading.active),
        inactive=reading.inactive,
        invalid=len(reading.invalid),
    )


def _conditions(synced: Synced) -> list[Condition]:
    conditions = [_ready(synced)]
    if synced.reading is None or synced.plan is None:
        return conditions
    problems = [*synced.reading.problems(), *synced.plan.problems]
    conditions.append(
        _condition(
            "RowsValid",
            not problems,
            "AllRowsValid",
            "InvalidRows",
            _listed("Not every row can be used", problems) or "Every row can be used.",
        )
    )
    held = synced.plan.held
    conditions.append(
        _condition(
            "DeletionsHeld",
            held is not None,
            held.reason.value if held else "",
            "NothingHeld",
            held.message if held else "No deletion waits for a word.",
        )
    )
    conditions.append(
        _condition(
            "TenantsSynced",
            not synced.troubles,
            "Synced",
            "TenantsNotWritten",
            _listed("Not everything could be written", synced.troubles)
            or "Every tenant is as its row says.",
        )
    )
    return conditions


def _ready(synced: Synced) -> Condition:
    if synced.error is not None:
        message = f"The query failed: {synced.error}. Tenants stay as they are; it is tried again."
        return _condition("Ready", False, "", synced.error.reason, message)
    found = synced.reading or Reading((), 0, 0)
    message = f"{len(found.active)} of {found.total} rows are active."
    return _condition("Ready", True, "DatabaseConnected", "", message)


def _listed(head: str, sentences: Sequence[str]) -> str:
    if not sentences:
        return ""
    shown = "; ".join(sentences[:MOST_LISTED])
    more = len(sentences) - MOST_LISTED
    return f"{head}: {shown}" + (f"; and {more} more." if more > 0 else ".")


def _condition(kind: str, holds: bool, true: str, false: str, message: str) -> Condition:
    return Condition.model_validate(
        {
            "type": kind,
            "status": "True" if holds else "False",
            "reason": true if holds else false,
            "message": message[:LONGEST_MESSAGE],
        }
    )
