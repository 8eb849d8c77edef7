"""Objects that no manager works on, where several share them: the leader has their status show it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from ctrlruntime.api.conditions import (
    Condition,
    conditions_of,
    conditions_to_wire,
    find_condition,
    new_condition,
    set_condition,
)
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.store import Store
from ctrlruntime.client.errors import Conflict
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.queue import Request
from ctrlruntime.sharding.report import SlotsOwned, Unowned
from ctrlruntime.sharding.slots import slot_of

SLOTS_OWNED: Final = "SlotsOwned"
"""Condition of an object: whether a manager works on its slot. There from the first time that none did."""
GRACE: Final = 30.0
"""Seconds without an owner that are not worth a write to each object of a slot: those of a hand-over, or of a Lease that runs out."""
PERIOD: Final = 2.0
"""Seconds between two looks."""
AGAIN: Final = 0.5
"""Seconds until the write is tried again where another one was faster: its event may be late."""


@dataclass(slots=True, kw_only=True)
class SlotOwners:
    """A reconciler of all objects of a kind, and a runnable that wakes those whose slot lost its owner, or has one again."""

    objects: Store
    owned: Callable[[], SlotsOwned]
    patcher: ObjectPatcher
    mapping: RESTMapping
    clock: Callable[[], datetime]
    wake: Callable[[Request], None]
    noun: str
    """What people call an object of the kind."""
    effect: str
    """A sentence: what does not happen to an object meanwhile."""
    _without: frozenset[int] = field(default=frozenset())

    async def start(self) -> None:
        """Look until cancelled."""
        while True:
            without = frozenset().union(*(each.slots for each in self._overdue()))
            for request in self._of_slots(without ^ self._without):
                self.wake(request)
            self._without = without
            await asyncio.sleep(PERIOD)

    async def reconcile(self, request: Request) -> Result | None:
        """Write the condition of an object, if it is another now. Raises the client's errors."""
        entry = self.objects.get(request.name, namespace=request.namespace)
        if entry is None or entry.deletion_timestamp is not None:
            return None
        slot, known = slot_of(request.name, namespace=request.namespace), self._known(request)
        late = self.owned().unowned if known == "False" else self._overdue()
        found = next((each for each in late if slot in each.slots), None)
        if known == ("True" if found is None else "False") or (found is None and known is None):
            return None
        conditions = conditions_of(entry.field("status") or {})
        set_condition(conditions, self._condition(slot, found), self.clock())
        try:
            await self.patcher.patch_status(
                self.mapping,
                request.name,
                {"conditions": conditions_to_wire(conditions)},
                namespace=request.namespace,
                uid=entry.uid,
                resource_version=entry.resource_version,
            )
        except Conflict:
            return Result(requeue_after=AGAIN)
        return None

    def _known(self, request: Request) -> str | None:
        entry = self.objects.get(request.name, namespace=request.namespace)
        status = None if entry is None else entry.field("status")
        found = find_condition(conditions_of(status or {}), SLOTS_OWNED)
        return None if found is None else found.status

    def _overdue(self) -> list[Unowned]:
        return [each for each in self.owned().unowned if each.seconds >= GRACE]

    def _of_slots(self, slots: frozenset[int]) -> Iterable[Request]:
        for entry in self.objects if slots else ():
            if slot_of(entry.name, namespace=entry.namespace) in slots:
                yield Request(entry.name, namespace=entry.namespace)

    def _condition(self, slot: int, found: Unowned | None) -> Condition:
        if found is None:
            return new_condition(
                SLOTS_OWNED, True, "Owned", f"A manager works on this {self.noun}."
            )
        why = f"{found.owner} has not taken it" if found.owner else "there is no manager for it"
        text = f"No manager works on slot {slot}: {why}. {self.effect}"
        return new_condition(SLOTS_OWNED, False, "SlotWithoutOwner", text)
