"""The status of a registry: counts, rows and conditions. Pure; the clock is passed in."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from heapq import nsmallest
from typing import Any, Generic, TypeVar, overload

from apis.fleet.labels import ROW_GONE
from apis.tenancy import RowCounts, TenantRegistryStatus
from apis.waiting import ChangesWaiting
from ctrlruntime.api.conditions import (
    LONGEST_MESSAGE,
    Condition,
    find_condition,
    list_sentences,
    new_condition,
    set_condition,
)
from internal.tenancy.rows.row import Reading
from internal.tenancy.shared.labels import INHERITED_BY
from internal.tenancy.shared.outcome import REMOVAL_PENDING
from internal.tenancy.shared.tally import Counts, TenantState
from internal.tenancy.sources import SourceError
from internal.tenancy.sources.write_back import WriteBackOutcome
from internal.tenancy.sync.departures import Move, Replacement
from internal.tenancy.sync.plan import Plan
from internal.tenancy.sync.replacements import Awaited
from internal.tenancy.tenant.slots import CONDITIONS

_Item = TypeVar("_Item")
MOST_LISTED = 5
MOST_AWAITED = 3
STATES_WRITTEN = "StatesWritten"
MOVE_PENDING = "MovePending"
REPLACEMENT_FAILED = "ReplacementFailed"


@dataclass(slots=True, kw_only=True)
class Synced:
    """What is known after the last syncs of a registry."""

    reading: Reading | None = None
    error: SourceError | None = None
    """Set while the last query failed; the reading is then the last good one."""
    position: str = ""
    """How far the rows were read; empty if that is unknown."""
    advanced: bool = False
    """Whether rows changed since the position was recorded last."""
    plan: Plan | None = None
    templates: int = 0
    troubles: Sequence[str] = field(default_factory=tuple)
    """Tenants that could not be written, one sentence each."""
    waiting: ChangesWaiting | None = None
    """Changes that a freeze or a window holds."""
    columns: tuple[str, ...] | None = None
    """Columns of the table; None until they were read, empty if they are unknown."""
    write_back: WriteBackOutcome | None = None
    """What became of the last states that were written back; None if there were none."""
    slots: tuple[Condition, ...] = ()
    """Of slots; none where one manager works on all tenants."""


class Sentences(Sequence[str], Generic[_Item]):
    """One sentence for each of many items, the first ones first: only those that a message has room for are made."""

    def __init__(
        self,
        items: Sequence[_Item],
        sentence: Callable[[_Item], str],
        order: Callable[[_Item], tuple[Any, ...]],
    ) -> None:
        self.first = nsmallest(LONGEST_MESSAGE, items, order)
        self._sentence, self._number = sentence, len(items)

    def __len__(self) -> int:
        return self._number

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[str]: ...
    def __getitem__(self, place: int | slice) -> str | Sequence[str]:
        if isinstance(place, slice):
            return [self._sentence(item) for item in self.first[place]]
        return self._sentence(self.first[place])


def registry_status(
    previous: TenantRegistryStatus,
    synced: Synced,
    counts: Counts,
    *,
    unmanaged: int = 0,
    removals: int = 0,
    generation: int,
    handled: str,
    now: datetime,
) -> TenantRegistryStatus:
    """Return the status to write; what a failing database leaves unknown stays as it was."""
    status = previous.model_copy(deep=True)
    status.observed_generation = generation
    status.ready, status.failed = counts.ready, counts.failed
    status.unmanaged = unmanaged
    replaced = () if synced.plan is None else synced.plan.replaced
    status.removals_pending = removals + len(replaced)
    status.last_handled_reconcile = handled
    status.waiting = synced.waiting
    if synced.columns is not None:
        status.columns = list(synced.columns)
    if synced.plan is not None and synced.reading is not None:
        status.referencing_templates = synced.templates
        status.desired = synced.plan.desired
        status.rows = _rows(synced.reading)
        status.moving = len(synced.plan.moving) or None
    if synced.position and (synced.advanced or not status.source_position):
        status.source_position = synced.position
    changed = status != previous
    conditions = _conditions(synced)
    if replaced or find_condition(status.conditions, REMOVAL_PENDING) is not None:
        conditions.append(removal_condition(replaced))
    moving = () if synced.plan is None else synced.plan.moving
    if moving or find_condition(status.conditions, MOVE_PENDING) is not None:
        conditions.append(move_condition(moving))
    if synced.write_back is not None:
        conditions.append(write_back_condition(synced.write_back))
    conditions += synced.slots
    there = {each.type for each in synced.slots}
    for name in CONDITIONS:
        old = None if name in there else find_condition(status.conditions, name)
        if old is not None:
            status.conditions.remove(old)
            changed = True
    for condition in conditions:
        condition.observed_generation = generation
        changed |= set_condition(status.conditions, condition, now)
    if changed and synced.error is None and synced.reading is not None:
        status.last_sync_time = now.replace(microsecond=0)
    return status


def _rows(reading: Reading) -> RowCounts:
    return RowCounts(
        total=reading.total,
        active=len(reading.active),
        inactive=len(reading.inactive),
        invalid=reading.invalid_rows,
    )


def _conditions(synced: Synced) -> list[Condition]:
    conditions = [_ready(synced)]
    if synced.reading is None or synced.plan is None:
        return conditions
    wrong = _rows_message(synced.reading, synced.plan)
    conditions.append(
        _condition(
            "RowsValid",
            not wrong,
            "AllRowsValid",
            "InvalidRows",
            wrong or "Every row can be used.",
        )
    )
    held = synced.plan.held
    conditions.append(
        _condition(
            "DeletionsHeld",
            held is not None,
            held.reason.value if held else "",
            "NothingHeld",
            held.message if held else "No deletion waits for approval.",
        )
    )
    conditions.append(_tenants_synced(synced))
    return conditions


def _tenants_synced(synced: Synced) -> Condition:
    """Return False with what could not be written, or with what holds changes or deletions."""
    sentences, reason = list(synced.troubles), "TenantsNotWritten"
    held = synced.waiting
    if held is not None:
        reason = reason if sentences else held.reason.value
        number = "1 change waits" if held.changes == 1 else f"{held.changes} changes wait"
        sentences.append(f"{number}: {held.message}")
    deletions = None if synced.plan is None else synced.plan.held
    if deletions is not None:
        reason = reason if sentences else deletions.reason.value
        sentences.append("deletions wait for an approval, see the condition DeletionsHeld")
    message = list_sentences("Not everything could be written", sentences)
    return _condition(
        "TenantsSynced",
        not sentences,
        "Synced",
        reason,
        message or "Every tenant matches its row.",
    )


def write_back_condition(outcome: WriteBackOutcome) -> Condition:
    """Whether the states of tenants are in the column that the registry names."""
    return _condition(STATES_WRITTEN, outcome.succeeded, "Written", outcome.reason, outcome.message)


def removal_condition(replaced: Sequence[Replacement]) -> Condition:
    """Which tenants stay until others are ready, the failed ones first, and the way out."""
    ordered = Sentences(replaced, _waits, lambda item: (not _has_failed(item), item.tenant))
    failed = bool(ordered) and _has_failed(ordered.first[0])
    head = "1 tenant stays" if len(ordered) == 1 else f"{len(ordered)} tenants stay"
    message = list_sentences(f"{head} until others take its place", ordered)
    return _condition(
        REMOVAL_PENDING,
        bool(ordered),
        REPLACEMENT_FAILED if failed else "ReplacementNotReady",
        "NothingPending",
        message or "No tenant waits for another one.",
    )


def move_condition(moving: Sequence[Move]) -> Condition:
    """Which tenants stay although their rows may be gone, those whose rows are gone first, and the ways out."""
    ordered = Sentences(moving, _moves, lambda item: (item.row != ROW_GONE, item.tenant))
    head = "1 tenant moves" if len(ordered) == 1 else f"{len(ordered)} tenants move"
    message = list_sentences(
        f"{head} to another data plane and stay until their move ends, or is given up with --abort",
        ordered,
    )
    gone = bool(ordered) and ordered.first[0].row == ROW_GONE
    return _condition(
        MOVE_PENDING,
        bool(ordered),
        "RowGone" if gone else "RowPresent",
        "NothingMoves",
        message or "No tenant moves to another data plane.",
    )


def _moves(item: Move) -> str:
    row = "is gone" if item.row == ROW_GONE else "is still here"
    return f"{item.tenant!r}, whose row {row}, to data plane {item.to}"


def _has_failed(item: Replacement) -> bool:
    return any(other.state is TenantState.FAILED for other in item.awaited)


_STATES = {
    None: "does not exist yet",
    TenantState.PENDING: "is not ready yet",
    TenantState.FAILED: "has failed, see its conditions",
}


def _state(other: Awaited) -> str:
    if other.template_gone:
        return "whose template is gone"
    return f"which {_STATES.get(other.state, '')}"


def _waits(item: Replacement) -> str:
    """Return what one tenant waits for. The way out comes last, where messages are not cut."""
    ordered = sorted(
        item.awaited, key=lambda other: (other.state is not TenantState.FAILED, other.name)
    )
    shown = [f"{other.name!r}, {_state(other)}" for other in ordered[:MOST_AWAITED]]
    more = len(ordered) - len(shown)
    names = " and for ".join(shown) + (f" and for {more} more" if more else "")
    way_out = f"delete the Tenant {item.tenant!r} to remove it before"
    if item.heirs:
        return f"{item.tenant!r} waits for {names}; {way_out}"
    return (
        f"{item.tenant!r} waits for {names} (only alike: nothing passes to it; if it is the same customer, annotate "
        f"the Tenant {item.tenant!r} with {INHERITED_BY}={ordered[0].name}); {way_out}"
    )


def _rows_message(reading: Reading, plan: Plan) -> str:
    """Every kind of problem with what to do, and as many rows by name as there is room for."""
    head = "Not every row can be used"
    if reading.invalid:
        head += ", and the tenants of these rows stay as they are"
    for named in range(MOST_LISTED, 0, -1):
        rows = list_sentences(head, reading.problems(named), 2 * LONGEST_MESSAGE)
        if len(rows) <= LONGEST_MESSAGE * 3 // 4:
            break
    return list_sentences(head, [*reading.problems(named), *plan.problems])


def _ready(synced: Synced) -> Condition:
    if synced.error is not None:
        message = f"The query failed: {synced.error}. Tenants stay as they are; it is tried again."
        return _condition("Ready", False, "", synced.error.reason, message)
    found = synced.reading or Reading()
    message = f"{len(found.active)} of {found.total} rows are active."
    return _condition("Ready", True, "DatabaseConnected", "", message)


def _condition(kind: str, holds: bool, true: str, false: str, message: str) -> Condition:
    return new_condition(kind, holds, true if holds else false, message)
