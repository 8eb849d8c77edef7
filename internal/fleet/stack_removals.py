"""Stacks that another FleetConfig removes from namespaces that are labelled still: held until exactly they are approved. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from math import ceil
from typing import Final

from apis.deletions import Removals
from apis.fleet import GROUP, FleetConfig
from apis.fleet.fleetconfig import NAME
from apis.fleet.labels import DATA_PLANE, TARGET_NAMESPACE
from ctrlruntime.api import Condition, find_condition
from ctrlruntime.cache.entry import Entry
from ctrlruntime.gate import (
    Budget,
    BudgetRecord,
    Cause,
    Evidence,
    Gate,
    ParentState,
    Removal,
    Victim,
)
from internal.fleet.plane_check import NAMESPACE
from internal.fleet.targets import TRUE, Mode, is_former
from internal.removal_holds import (
    HELD,
    Parent,
    another_time,
    approvals_of,
    held_condition,
    is_without_record,
    unknown_removals,
)

WAITS: Final = f"waits for an approval; the condition {HELD} has the command"
RECORD: Final = "removals"
"""The field of a status with what went."""
BUDGET: Final = Budget(max_percent=0)
"""One stack within a day, of however many."""
REASON: Final = "another FleetConfig removes stacks of data planes that are labelled still"


@dataclass(frozen=True, slots=True)
class StackRemovals:
    """What of a set may go now, as the status is to have it."""

    removals: Removals
    conditions: tuple[Condition, ...] = ()
    lets_go: bool = False
    """Whether any stack may go."""

    def changes(self, config: FleetConfig) -> bool:
        """Return whether anything goes, or the record is another one than before."""
        return self.lets_go or self.removals != config.status.removals


def goes_by_config(namespace: Entry, mode: Mode) -> bool:
    """Return whether the mode alone removes the stack: the namespace's own label wants one."""
    labelled = namespace.labels.get(DATA_PLANE) == TRUE
    return labelled and is_former(namespace, mode) and namespace.deletion_timestamp is None


def is_permitted(config: FleetConfig, namespace: Entry) -> bool:
    """Return whether the teardown of this very namespace was permitted."""
    status, generation = config.status, config.metadata.generation or 0
    if status.removals is None or is_without_record(status.to_wire(), generation, RECORD):
        return False
    return namespace.uid in status.removals.approved


def decide(
    config: FleetConfig, namespaces: Iterable[Entry], mode: Mode, now: datetime
) -> StackRemovals:
    """Decide on all stacks that go by the mode. One may go within a day, unless it is what is left of a set that was held."""
    before, there = config.status.removals or Removals(), list(namespaces)
    wanted = [
        Removal(
            victim=Victim(NAMESPACE.gvk.group_kind, "", each.name),
            uid=each.uid,
            holds_state=False,
            cause=Cause.SPEC_CHANGED,
            evidence=Evidence.CERTAIN,
            parent=f"FleetConfig.{GROUP} {NAME}",
        )
        for each in there
        if goes_by_config(each, mode)
    ]
    known = find_condition(config.status.conditions, HELD)
    was_held = known is not None and known.status == "True"
    annotations = config.metadata.annotations or {}
    record = BudgetRecord.of(before.model_dump())
    going = {each.uid for each in wanted}
    record = replace(record, approved={u: at for u, at in record.approved.items() if u in going})
    labelled = {
        str(Victim(NAMESPACE.gvk.group_kind, "", each.name))
        for each in there
        if each.labels.get(TARGET_NAMESPACE) == TRUE
    }
    unknown = unknown_removals(config.status.removals_unknown_since, now, BUDGET.window)
    state = ParentState(
        protection=REASON if len(wanted) > 1 or was_held else unknown,
        members=len(labelled | BUDGET.current(record, now, ()).members.keys()),
        approvals=approvals_of(annotations, GROUP),
        record=record,
    )
    decision = Gate(budget=BUDGET).removals(wanted, now=now, parent=state)
    at = ceil(now.timestamp())
    fresh = {each.removal.uid: at for each in decision.permits}
    record = decision.record
    kept = replace(record, approved={**fresh, **record.approved})
    is_held = decision.hold is not None
    saved = before.saved
    if kept != BudgetRecord.of(before.model_dump()) or is_held != was_held:
        saved = another_time(now, saved)  # an older status is found by it: see is_put_back
    parent = Parent(mapping=FleetConfig.mapping(), name=NAME, annotations=annotations)
    conditions: tuple[Condition, ...] = ()
    if is_held or known is not None:
        conditions = (held_condition(parent, decision.hold, config.metadata.generation or 0),)
    removals = Removals.model_validate({**kept.to_dict(), "saved": saved})
    return StackRemovals(removals, conditions, lets_go=bool(decision.permits))
