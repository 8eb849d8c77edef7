"""What the deletion of an Instance would take along: held under protection until exactly that is approved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from apis.cloud import GROUP, Instance
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.gate import (
    Cause,
    Evidence,
    Gate,
    Hold,
    ParentState,
    RecordChanged,
    Removal,
    Victim,
    decide,
)
from internal.cloud.instance.order import PROTECTED, is_protected, kind_of
from internal.cloud.labels import TEARDOWN_APPROVED
from internal.cloud.subresource import Subresource
from internal.cloud.tasks.terraform.prior_state import PLACE, RESOURCES
from internal.removal_holds import Parent, StatusRecords, approvals_of

ORPHANED: Final = "Orphaned"
"""Condition of an Instance that goes with deletionPolicy Orphan: what is left. Reason of the event as well."""


def parent_of(entry: Entry) -> Parent:
    """Return an Instance in the words of a command."""
    return Parent(
        mapping=Instance.mapping(),
        name=entry.name,
        namespace=entry.namespace,
        annotations=entry.annotations,
    )


def teardown_removals(
    entry: Entry, present: Iterable[tuple[Subresource[Any], Iterable[Entry]]]
) -> list[Removal]:
    """Return what goes with an Instance and was not approved before: every object of it that is there. Pure."""
    return [
        Removal(
            victim=Victim(child.gvk.group_kind, child.namespace, child.name),
            uid=child.uid,
            holds_state=subresource.definition.teardown,
            cause=Cause.PARENT_DELETED,
            evidence=Evidence.CERTAIN,
            parent=f"Instance.{GROUP} {entry.namespace}/{entry.name}",
        )
        for subresource, children in present
        for child in children
        if not is_approved(child)
    ]


def is_approved(child: Entry) -> bool:
    """Whether the teardown of this very object was approved."""
    return bool(child.uid) and child.annotations.get(TEARDOWN_APPROVED) == child.uid


def left_behind(present: Iterable[tuple[Subresource[Any], Iterable[Entry]]]) -> str:
    """Return what stays of objects that go without a teardown, in words without values. Pure."""
    found = [
        f"{kind_of(subresource)} {child.name}: {_made(child)}"
        for subresource, children in present
        if subresource.definition.teardown
        for child in children
    ]
    return "; ".join(found) or "nothing that was built is known"


def _made(child: Entry) -> str:
    status: Mapping[str, Any] = child.field("status") or {}
    record: Mapping[str, str] = status.get("record") or {}
    known = [record[name] for name in (PLACE, "cluster") if record.get(name)]
    if RESOURCES in record:
        known.append(f"{record[RESOURCES]} resources")
    return ", ".join(known) or "what its runs made"


@dataclass(slots=True)
class TeardownGuard:
    """Passes the teardown of an Instance through the gate."""

    patcher: ObjectPatcher
    clock: Callable[[], datetime]
    gate: Gate = field(default_factory=Gate)

    async def hold(
        self, entry: Entry, present: Iterable[tuple[Subresource[Any], Iterable[Entry]]]
    ) -> Hold | None:
        """Return what is held of the teardown, with its digest; None: all of it may go.

        The record of what was approved is stored before. Raises the client's errors.
        """
        removals = teardown_removals(entry, present)
        if not removals or not is_protected(entry):
            return None
        state = ParentState(protection=PROTECTED.rstrip("."), members=len(removals))
        store = StatusRecords(
            patcher=self.patcher,
            mapping=Instance.mapping(),
            name=entry.name,
            namespace=entry.namespace,
            uid=entry.uid,
            state=lambda _found: state,
            clock=self.clock,
            windowed=False,
            counted=approvals_of(entry.annotations, GROUP),
        )
        try:
            return (await decide(self.gate, removals, store, self.clock)).hold
        except RecordChanged:  # others write all the time, or it is gone
            return Hold.of(removals, "the status of the Instance changes too often")
