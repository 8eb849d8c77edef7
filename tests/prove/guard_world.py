"""The deletion guard of a registry: however answers of the database come and go, few rows lose their tenants."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from apis.tenancy import RemovedRows
from internal.tenancy.rows.row import ActiveRow, Reading
from internal.tenancy.shared.naming import tenant_name
from internal.tenancy.shared.tally import TenantState
from internal.tenancy.sync.deletion_guard import Guard
from internal.tenancy.sync.plan import Plan, plan
from internal.tenancy.sync.plan_inputs import ExistingTenant, Template
from internal.tenancy.sync.removal_window import recent, record
from tests.prove.explorer import Step, Violated

_START: Final = datetime(2030, 1, 1, tzinfo=UTC)
_HOUR: Final = timedelta(hours=1)
_WINDOW: Final = 2
"""Hours."""
_GUARD: Final = Guard(percent=25, rows=1, window=_WINDOW * _HOUR)
_TEMPLATE: Final = Template("web", "1")


@dataclass(frozen=True, slots=True)
class Registry:
    """A registry with one template. Hours of the status are counted back from now."""

    rows: frozenset[str]
    """The active rows, as the database answers."""
    inactive: frozenset[str] = frozenset()
    unidentified: bool = False
    """Whether there is a row without a usable uid."""
    tenants: frozenset[str] = frozenset()
    """Rows that have a tenant."""
    removed: tuple[tuple[int, tuple[str, ...]], ...] = ()
    """What its status records: how many hours ago, which rows."""
    lost: frozenset[tuple[str, int]] = frozenset()
    """Rows whose tenants went, and how many hours ago that was decided."""

    def plan(self) -> Plan:
        """Return what is to be done now."""
        reading = Reading(
            active=tuple(ActiveRow(uid, {}) for uid in sorted(self.rows)),
            total=len(self.rows) + len(self.inactive) + self.unidentified,
            inactive=self.inactive,
            unidentified=int(self.unidentified),
        )
        existing = [
            ExistingTenant(
                name=tenant_name(uid, _TEMPLATE.name),
                uid=uid,
                template=_TEMPLATE.name,
                version=_TEMPLATE.version,
                variables={},
                object_uid=uid,
                state=TenantState.READY,
            )
            for uid in sorted(self.tenants)
        ]
        before = recent(self.entries(), _START, _WINDOW * _HOUR)
        return plan(reading, [_TEMPLATE], existing, replace(_GUARD, recent=before))

    def entries(self) -> list[RemovedRows]:
        """Return what the status records."""
        return [
            RemovedRows(time=_START - hours * _HOUR, rows=len(uids), uids=list(uids))
            for hours, uids in self.removed
        ]


class GuardScope:
    """Rows go, come back and become inactive, answers lack some or all, passes are cut short anywhere."""

    name = "removal guard"

    def __init__(self, rows: int) -> None:
        self._rows = [f"r{number}" for number in range(rows)]

    def starts(self) -> Iterable[Registry]:
        """Return a registry whose rows all have tenants."""
        yield Registry(frozenset(self._rows), tenants=frozenset(self._rows))

    def key(self, state: Registry) -> Hashable:
        """Return the registry itself."""
        return state

    def steps(self, state: Registry) -> Iterable[Step[Registry]]:
        """Return how the database changes, and what the program does."""
        for uid in self._rows:
            others = replace(state, rows=state.rows - {uid}, inactive=state.inactive - {uid})
            if uid in state.rows:
                yield Step(f"{uid} goes", others)
                inactive = replace(others, inactive=state.inactive | {uid})
                yield Step(f"{uid} becomes inactive", inactive)
            else:
                yield Step(f"{uid} comes", replace(others, rows=state.rows | {uid}))
        nothing = replace(state, rows=frozenset(), inactive=frozenset(), unidentified=False)
        yield Step("nothing is answered", nothing)
        yield Step("a row without a uid", replace(state, unidentified=not state.unidentified))
        yield Step("hour", _later(state), drives=bool(state.removed))
        planned = state.plan()
        removed = [each.uid for each in planned.deletes if each.uid]
        stored = _recorded(state, removed)
        going = [each.name for each in planned.deletes]
        for done in range(len(going) + 1):
            drives = done == len(going)
            after = _removed(stored, going[:done])
            if drives:
                made = {each.row.uid for each in planned.creates}
                after = replace(after, tenants=after.tenants | made)
            yield Step(f"pass, cut after {done}", after, drives)

    def is_calm(self, state: Registry) -> bool:
        """Whether tenants are those of rows, but for those that the guard holds. Raises Violated over its limit."""
        lost = {uid for uid, _ in state.lost}
        if len(lost) > max(_GUARD.rows, len(self._rows) * _GUARD.percent // 100):
            raise Violated(f"{sorted(lost)} lost their tenants within {_WINDOW} h")
        planned = state.plan()
        if not (state.rows or state.inactive or state.unidentified) and planned.deletes:
            raise Violated("tenants go because an answer is empty")
        held = planned.held is not None
        return not (planned.creates or planned.deletes) and (held or state.tenants == state.rows)


def _later(state: Registry) -> Registry:
    def older(hours: int) -> int:
        return hours + 1

    return replace(
        state,
        removed=tuple((older(at), uids) for at, uids in state.removed if older(at) <= _WINDOW),
        lost=frozenset((uid, older(at)) for uid, at in state.lost if older(at) < _WINDOW),
    )


def _recorded(state: Registry, uids: Iterable[str]) -> Registry:
    entries = record(state.entries(), list(uids), _START, _WINDOW * _HOUR)
    removed = tuple((int((_START - each.time) / _HOUR), tuple(each.uids)) for each in entries)
    return replace(state, removed=removed)


def _removed(state: Registry, names: Iterable[str]) -> Registry:
    """Return a registry without tenants of these names."""
    uids = {uid for uid in state.tenants if tenant_name(uid, _TEMPLATE.name) in {*names}}
    for uid in uids - state.inactive:
        if state.unidentified:
            raise Violated(f"{uid} goes although a row without a uid may be the same")
    decided = {uid: at for at, found in state.removed for uid in found}
    lost = {each for each in state.lost if each[0] not in uids}
    lost |= {(uid, decided.get(uid, 0)) for uid in uids}
    return replace(state, tenants=state.tenants - uids, lost=frozenset(lost))


def guard_world(*, small: bool = False) -> GuardScope:
    """Return the world of a guard over four rows, or three."""
    return GuardScope(3 if small else 4)
