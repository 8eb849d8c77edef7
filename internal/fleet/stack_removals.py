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
from apis.fleet.labels import DATA_PLANE
from ctrlruntime.api import Condition
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.cache.entry import Entry
from ctrlruntime.gate import BudgetRecord, Cause, Evidence, Gate, ParentState, Removal, Victim
from internal.fleet.plane_check import NAMESPACE
from internal.fleet.status import TEARDOWN_COMPLETE
from internal.fleet.targets import TRUE, Mode, is_former
from internal.removal_holds import HELD, Parent, approvals_of, held_condition, lost_record

WAITS: Final = f"waits for an approval; the condition {HELD} has the command"
REASON: Final = "another FleetConfig removes stacks of data planes that are labelled still"


@dataclass(frozen=True, slots=True)
class StackRemovals:
    """What of a set may go now, as the status is to have it."""

    removals: Removals | None
    conditions: tuple[Condition, ...] = ()


def goes_by_config(namespace: Entry, mode: Mode) -> bool:
    """Return whether the mode alone removes the stack: the namespace's own label wants one."""
    labelled = namespace.labels.get(DATA_PLANE) == TRUE
    return labelled and is_former(namespace, mode) and namespace.deletion_timestamp is None


def is_permitted(config: FleetConfig, namespace: Entry) -> bool:
    """Return whether the teardown of this very namespace was permitted."""
    removals = config.status.removals
    return removals is not None and namespace.uid in removals.approved and not is_lost(config)


def is_lost(config: FleetConfig) -> bool:
    """Return whether no pass has decided since the status was wiped or restored; an invalid or paused config decides nothing."""
    status = config.status
    if status.observed_generation > (config.metadata.generation or 0):
        return True
    return find_condition(status.conditions, TEARDOWN_COMPLETE) is None


def decide(
    config: FleetConfig, namespaces: Iterable[Entry], mode: Mode, now: datetime
) -> StackRemovals:
    """Decide on all stacks that go by the mode. One may go, unless it is what is left of a set that was held, or the status does not show that."""
    before = config.status.removals
    removals = [
        Removal(
            victim=Victim(NAMESPACE.gvk.group_kind, "", each.name),
            uid=each.uid,
            holds_state=False,
            cause=Cause.SPEC_CHANGED,
            evidence=Evidence.CERTAIN,
            parent=f"FleetConfig.{GROUP} {NAME}",
        )
        for each in namespaces
        if goes_by_config(each, mode)
    ]
    known = find_condition(config.status.conditions, HELD)
    was_held = known is not None and known.status == "True"
    annotations = config.metadata.annotations or {}
    record = BudgetRecord.of(None if before is None else before.model_dump())
    lost = is_lost(config)
    if lost:
        record = BudgetRecord(used={**record.used, **lost_record(annotations, GROUP, now).used})
    going = {each.uid for each in removals}
    record = replace(record, approved={u: at for u, at in record.approved.items() if u in going})
    state = ParentState(
        protection=REASON if len(removals) > 1 or was_held or lost else "",
        approvals=approvals_of(annotations, GROUP),
        record=record,
    )
    decision = Gate().removals(removals, now=now, parent=state)
    at = ceil(now.timestamp())
    fresh = {each.removal.uid: at for each in decision.permits}
    record = decision.record
    kept = replace(record, approved={**fresh, **record.approved}).to_dict()
    parent = Parent(mapping=FleetConfig.mapping(), name=NAME, annotations=annotations)
    conditions: tuple[Condition, ...] = ()
    if decision.hold is not None or known is not None:
        conditions = (held_condition(parent, decision.hold, config.metadata.generation or 0),)
    return StackRemovals(Removals.model_validate(kept) if kept else None, conditions)
