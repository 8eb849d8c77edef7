"""Which disks of a set may go: the gate's answer for all of them at once, with the budget and record of the set."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from apis.cosmos import GROUP, CosmosFullNode
from apis.deletions import Deletions
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.gate import (
    BudgetRecord,
    Decision,
    Gate,
    Hold,
    ParentState,
    RecordChanged,
    Removal,
    decide,
)
from ctrlruntime.resources.ordinal import ordinal_of
from internal.cosmos.fullnode.metadata import node_ordinals
from internal.cosmos.fullnode.pvc_builder import has_claim
from internal.removal_holds import Parent, StatusRecords, approvals_of

RENUMBERED: Final = "nodes were renumbered, and the old ones keep their disks"
"""Why disks of nodes wait that did not go because there are fewer."""
PROTECTED: Final = (
    "the CosmosFullNode is being deleted, and spec.deletionProtection keeps its disks"
)
STALE: Final = "the spec has changed since it was read"


@dataclass(slots=True)
class DiskRemovals:
    """Decides for one pass over a set; `hold` is what waits."""

    node_set: CosmosFullNode
    patcher: ObjectPatcher
    clock: Callable[[], datetime]
    claims: Sequence[Entry]
    """All that the set has."""
    used: bool
    """Whether Pods of nodes that are to lose their disks are still there: then all disks stay for now."""
    hold: Hold | None = None

    async def decide(self, removals: Sequence[Removal]) -> Decision:
        """Return the answer. Costs a request only where disks may go. Raises the client's errors."""
        gate = Gate(budget=self.node_set.spec.deletions.budget)
        first = gate.removals(removals, now=self.clock(), parent=self._cached())
        self.hold = first.hold
        if not first.permits:
            return first
        if self.used:
            return Decision(hold=Hold.of(removals, "their nodes still run"))
        try:
            final = await decide(gate, removals, self._store(), self.clock)
        except RecordChanged:
            return Decision(hold=Hold.of(removals, "the status of the set changes too often"))
        self.hold = final.hold
        return final

    def _parent(self) -> ParentState:
        spec = self.node_set.spec
        asks = spec.deletion_protection is not False and is_renumbered(self.node_set, self.claims)
        members = max(spec.replicas, len(self.claims))
        return ParentState(protection=RENUMBERED if asks else "", members=members)

    def _cached(self) -> ParentState:
        removals = self.node_set.status.removals
        return replace(
            self._parent(),
            approvals=approvals_of(self.node_set.metadata.annotations or {}, GROUP),
            record=BudgetRecord.of(None if removals is None else removals.model_dump()),
        )

    def _store(self) -> StatusRecords:
        metadata = self.node_set.metadata

        def state(found: Mapping[str, Any]) -> ParentState:
            stale = found["metadata"].get("generation") != metadata.generation
            return replace(self._parent(), held=STALE if stale else "")

        return StatusRecords(
            self.patcher,
            CosmosFullNode.mapping(),
            metadata.name or "",
            metadata.namespace or "",
            metadata.uid or "",
            state,
        )


def is_renumbered(node_set: CosmosFullNode, claims: Collection[Entry]) -> bool:
    """Whether disks would go for another reason than fewer replicas or a node that is disabled. Pure.

    With fewer replicas the highest numbers go, which follow those wanted, and are no older. A disk that is older
    than one that is wanted, or is there before it, had its node replaced by that of another number.
    """
    wanted = node_ordinals(node_set)
    there = [entry for entry in claims if entry.deletion_timestamp is None]
    beyond = {ordinal_of(entry): entry for entry in there if ordinal_of(entry) not in wanted}
    if not beyond:
        return False
    if set(beyond) != set(range(wanted.stop, wanted.stop + len(beyond))):
        return True
    oldest = min(_created(entry) for entry in beyond.values())
    made = {ordinal_of(entry): _created(entry) for entry in there if ordinal_of(entry) in wanted}
    to_make = any(number not in made for number in wanted if has_claim(node_set, number))
    return to_make or any(created > oldest for created in made.values())


def hold_of_deletion(entry: Entry, removals: Sequence[Removal], now: datetime) -> Hold | None:
    """Return what waits of a set that is being deleted: all of its disks, or nothing. Pure.

    Protection is on where the spec leaves it open and the disks are more than may go at once. The fields are read as
    they are: a set whose spec cannot be read any more has disks as well.
    """
    spec, status = entry.field("spec") or {}, entry.field("status") or {}
    protection = spec.get("deletionProtection")
    if not removals or protection is False:
        return None
    limit = (spec.get("deletions") or {}).get("maxWithState", Deletions().max_with_state)
    parent = ParentState(
        protection=PROTECTED if protection or len(removals) > limit else "",
        members=len(removals),
        approvals=approvals_of(entry.annotations, GROUP),
        record=BudgetRecord.of(status.get("removals")),
    )
    return Gate().removals(removals, now=now, parent=parent).hold


def parent_of(name: str, namespace: str, annotations: Mapping[str, str]) -> Parent:
    """Return a set, in the words of a command."""
    return Parent(
        mapping=CosmosFullNode.mapping(), name=name, namespace=namespace, annotations=annotations
    )


def _created(entry: Entry) -> str:
    return entry.creation_timestamp or ""
