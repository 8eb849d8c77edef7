"""Which disks of a set may go: the gate's answer for all of them at once, with the budget and record of the set."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from apis.cosmos import GROUP, CosmosFullNode
from ctrlruntime.api.scalars import parse_time
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
from ctrlruntime.gate.budget import HOUR
from ctrlruntime.resources.ordinal import ordinal_of
from internal.cosmos.fullnode.metadata import node_ordinals
from internal.cosmos.fullnode.pvc_builder import has_claim
from internal.cosmos.labels import pod_name
from internal.removal_holds import (
    UNKNOWN_SINCE,
    Parent,
    StatusRecords,
    approvals_of,
    is_without_record,
    unknown_removals,
)

RENUMBERED: Final = "nodes were renumbered, and the old ones keep their disks"
"""Why disks of nodes wait that did not go because there are fewer."""
LAST: Final = "no disk that stays is known to have the chain's data"
"""Why the last copies of a set wait, whatever the budget."""
PROTECTED: Final = (
    "the CosmosFullNode is being deleted, and spec.deletionProtection keeps its disks"
)
LOSING: Final = "their claims are being deleted, and go with their Pods, though volumeRetentionPolicy keeps them"
RECORD: Final = "removals"
"""The field of a status with what went."""
LOST: Final = "the status was lost since it was read"
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
    going: frozenset[str] = frozenset()
    """UIDs of the claims that are to go."""

    async def take_back(self, wanted: Collection[str]) -> None:
        """Forget the approval of disks that are wanted again, by name: it was for that one time. Raises the client's errors.

        Costs requests only where there are some. A pass that is too slow for that is followed by another one.
        """
        removals = self.node_set.status.removals
        approved = () if removals is None else removals.approved
        again = {each.uid for each in self.claims if each.name in wanted and each.uid in approved}
        if not again:
            return
        store = self._store()
        with suppress(RecordChanged):
            parent, version = await store.load()
            if not parent.held:
                left = {uid: at for uid, at in parent.record.approved.items() if uid not in again}
                await store.save(replace(parent.record, approved=left).to_dict(), version)

    async def decide(self, removals: Sequence[Removal]) -> Decision:
        """Return the answer. Costs a request only where disks may go. Raises the client's errors."""
        gate = Gate(budget=self.node_set.spec.deletions.budget)
        self.going = frozenset(each.uid for each in removals)
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

    def _parent(self, since: datetime | None) -> ParentState:
        """`since`: when the record was found lost; None: it was not."""
        spec = self.node_set.spec
        every_node = spec.deletions.max_percent >= 100
        window = HOUR if every_node else spec.deletions.budget.window
        protection = unknown_removals(since, self.clock(), window)
        if every_node and spec.deletions.max_with_state >= len(self.claims):
            protection = ""  # nothing limits what may go
        if spec.deletion_protection is not False:
            if leaving := _leaving(self.node_set, self.claims):
                protection = f"{leaving} of a node that stays is being deleted"
            elif is_renumbered(self.node_set, self.claims):
                protection = RENUMBERED
            elif leaves_no_copy(self.node_set, self.claims, self.going):
                protection = LAST
        return ParentState(protection=protection, members=max(spec.replicas, len(self.claims)))

    def _cached(self) -> ParentState:
        removals = self.node_set.status.removals
        return replace(
            self._parent(self.node_set.status.removals_unknown_since),
            approvals=approvals_of(self.node_set.metadata.annotations or {}, GROUP),
            record=BudgetRecord.of(None if removals is None else removals.model_dump()),
        )

    def _store(self) -> StatusRecords:
        metadata = self.node_set.metadata

        def state(found: Mapping[str, Any]) -> ParentState:
            generation = found["metadata"].get("generation") or 0
            held = STALE if generation != metadata.generation else ""
            if is_without_record(found.get("status"), generation, RECORD):
                held = LOST  # since the pass began: the next one reports it first
            since = (found.get("status") or {}).get(UNKNOWN_SINCE)
            return replace(self._parent(None if since is None else parse_time(since)), held=held)

        return StatusRecords(
            self.patcher,
            CosmosFullNode.mapping(),
            metadata.name or "",
            metadata.namespace or "",
            metadata.uid or "",
            state,
            self.clock,
            approvals_of(metadata.annotations or {}, GROUP),
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
    numbers = {ordinal_of(entry) for entry in claims} - set(wanted)
    if numbers != set(range(wanted.stop, wanted.stop + len(numbers))):
        return True
    oldest = min(_created(entry) for entry in beyond.values())
    made = {ordinal_of(entry): _created(entry) for entry in there if ordinal_of(entry) in wanted}
    to_make = any(number not in made for number in wanted if has_claim(node_set, number))
    return to_make or any(created > oldest for created in made.values())


def leaves_no_copy(
    node_set: CosmosFullNode, claims: Collection[Entry], going: Collection[str]
) -> bool:
    """Whether no disk would be left that is known to have the chain's data, once those with these UIDs are gone. Pure.

    A disk is known to have it if it is bound and wanted, and is as old as those that go or its node is in sync.
    """
    oldest = min((_created(entry) for entry in claims if entry.uid in going), default="")
    sync, name = node_set.status.sync, node_set.metadata.name or ""

    def is_copy(entry: Entry) -> bool:
        number = ordinal_of(entry)
        if number not in node_ordinals(node_set) or not has_claim(node_set, number):
            return False
        if (entry.field("status") or {}).get("phase") != "Bound":
            return False
        node = sync.get(pod_name(name, number))
        return _created(entry) <= oldest or (node is not None and bool(node.in_sync))

    staying = [each for each in claims if each.uid not in going and not each.deletion_timestamp]
    return not any(map(is_copy, staying))


def hold_of_deletion(
    entry: Entry, removals: Sequence[Removal], now: datetime, *, retained: bool = False
) -> Hold | None:
    """Return what waits of a set that is being deleted: all of these disks, or nothing. Pure.

    Protection is on where the spec leaves it open: they are the last copies. The fields are read as they are: a set
    whose spec cannot be read any more has disks as well. `retained`: they are to outlive the set, and would not.
    """
    spec, status = entry.field("spec") or {}, entry.field("status") or {}
    if not removals or (not retained and spec.get("deletionProtection") is False):
        return None
    parent = ParentState(
        protection=LOSING if retained else PROTECTED,
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


def _leaving(node_set: CosmosFullNode, claims: Iterable[Entry]) -> str:
    """Return the first claim of a wanted node that is being deleted; empty if there is none."""
    wanted = node_ordinals(node_set)
    names = (each.name for each in claims if each.deletion_timestamp and ordinal_of(each) in wanted)
    return min(names, default="")


def _created(entry: Entry) -> str:
    return entry.creation_timestamp or ""
