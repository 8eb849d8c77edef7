"""Exemptions from freezes: granted by the ChangeFreeze, requested by an annotation of the object. Pure.

Who may edit an object may annotate it, so an annotation grants nothing; ChangeFreezes are cluster-scoped, and who may
write them may end them as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final

from apis.operations import (
    EXEMPT,
    Exemption,
    ExemptionState,
    ExemptionStatus,
    FrozenKind,
    FrozenSystem,
)
from ctrlruntime.cache import DeleteEvent, Entry, Event, GenericEvent
from ctrlruntime.rollout import Freeze, FrozenObject, Waiting, hold_of

KINDS: Final[Mapping[FrozenSystem, Sequence[FrozenKind]]] = {
    FrozenSystem.TENANCY: (FrozenKind.TENANT_REGISTRY,),
    FrozenSystem.CLOUD: (FrozenKind.INSTANCE, FrozenKind.FLEET_ROLLOUT),
    FrozenSystem.COSMOS: (FrozenKind.COSMOS_FULL_NODE,),
}
"""The kinds of each system."""
MOST_REQUESTS: Final = 64
"""Requests of one system that a status lists."""


def frozen_object(entry: Entry) -> FrozenObject:
    """Return an object of the cache as freezes name it."""
    return FrozenObject(entry.kind, entry.namespace, entry.name)


def grant_command(freeze: str, item: FrozenObject) -> str:
    """Return the command that exempts an object."""
    return f"manager freeze exempt {freeze} {item.kind}/{item.name} -n {item.namespace}"


def hold_for(
    freezes: Iterable[Freeze], system: str, namespace: str, frozen: Entry | None, now: datetime
) -> Waiting | None:
    """Return why changes wait that belong to an object, with what became of its request; None: they do not."""
    found = list(freezes)
    item = None if frozen is None else frozen_object(frozen)
    hold = hold_of(found, system, namespace, now, item)
    wish = "" if frozen is None else frozen.annotations.get(EXEMPT, "")
    if hold is None or item is None or not wish:
        return hold
    active = {each.name: each for each in found if each.is_active(now)}
    named = active.get(wish)
    if named is None or not named.covers(system, namespace):
        text = f"its annotation {EXEMPT} names {wish[:63]!r}, which is no freeze that holds it"
    elif item in named.exempt:
        return hold
    else:
        text = (
            f"its annotation requests an exemption from {wish!r}, which who may write ChangeFreezes grants: "
            f"`{grant_command(wish, item)}`"
        )
    return replace(hold, message=f"{hold.message}; {text}")


@dataclass(slots=True)
class ExemptionRequests:
    """The objects whose annotation requests an exemption."""

    found: dict[FrozenObject, str] = field(default_factory=dict)
    """The freeze that each names."""

    def observe(self, event: Event) -> bool:
        """Record an event of an informer; return whether a request came, changed or went."""
        if isinstance(event, GenericEvent):
            return False
        gone = isinstance(event, DeleteEvent)
        entry = event.old if isinstance(event, DeleteEvent) else event.new
        item, wish = frozen_object(entry), entry.annotations.get(EXEMPT, "")
        before = self.found.pop(item, "")
        if wish and not gone:
            self.found[item] = wish
        return before != self.found.get(item, "")

    def of(self, freeze: Freeze, system: FrozenSystem) -> list[Exemption]:
        """Return the requests that a freeze of one system has and does not grant, in order, not more than are listed."""
        wanted = sorted(
            item
            for item, name in self.found.items()
            if name == freeze.name
            and item not in freeze.exempt
            and freeze.covers(system.value, item.namespace)
        )
        return [
            Exemption(kind=FrozenKind(item.kind), namespace=item.namespace, name=item.name)
            for item in wanted[:MOST_REQUESTS]
        ]


def exemption_statuses(
    before: Sequence[ExemptionStatus],
    granted: Iterable[Exemption],
    requested: Iterable[Exemption],
    system: FrozenSystem,
    now: datetime,
) -> list[ExemptionStatus]:
    """Return the exemptions of a status: those of one system as they are, those of the others as they were."""
    kinds = KINDS[system]
    known = {(key_of(item), item.state): item.since for item in before}
    after = [item for item in before if item.kind not in kinds]
    for state, items in (
        (ExemptionState.GRANTED, granted),
        (ExemptionState.REQUESTED, requested),
    ):
        after += [
            ExemptionStatus(
                **item.model_dump(), state=state, since=known.get((key_of(item), state), now)
            )
            for item in items
            if item.kind in kinds
        ]
    return sorted(after, key=key_of)


def exemption_events(
    before: Sequence[ExemptionStatus], after: Sequence[ExemptionStatus]
) -> list[tuple[str, str]]:
    """Return reason and note of an event for each exemption that was granted, requested or ended."""
    known = {(key_of(item), item.state) for item in before}
    granted = {key_of(item) for item in after if item.state is ExemptionState.GRANTED}
    events = [
        (f"Exemption{item.state.value}", _describe(item))
        for item in after
        if (key_of(item), item.state) not in known
    ]
    return events + [
        ("ExemptionRevoked", _describe(item))
        for item in before
        if item.state is ExemptionState.GRANTED and key_of(item) not in granted
    ]


def _describe(item: ExemptionStatus) -> str:
    """Return an exemption in words: which object, why, and by whom."""
    why = f": {item.reason}" if item.reason else ""
    by = f", by {item.by}" if item.by else ""
    return f"{item.kind.value} {item.namespace}/{item.name}{why}{by}"


def key_of(item: Exemption) -> FrozenObject:
    """Return which object an exemption is of."""
    return FrozenObject(item.kind.value, item.namespace, item.name)
