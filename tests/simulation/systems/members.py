"""What may never happen where managers divide the objects: two of them write one object in one epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ctrlruntime.envtest.server.storage import Bucket, Change
from ctrlruntime.envtest.simulation import Simulation
from ctrlruntime.envtest.simulation.server import Call
from ctrlruntime.sharding.assignment import Assignment, decode
from ctrlruntime.sharding.leases import ASSIGNED
from ctrlruntime.sharding.slots import SLOTS

TWO_WRITERS: Final = "two writers"
_HELD: Final = 120.0
"""Seconds within which each slot has an owner that is there: a Lease ends, and the leader sees it."""
UNOWNED: Final = "unowned"
SlotOfChange = Callable[[Call, Bucket, Change], int | None]
"""Returns the slot of what a request changed; None for what is the leader's, or in no slot."""


class Members:
    """A witness of the server. It knows the assignment as it was written, not what a member takes it for."""

    def __init__(self, sim: Simulation, slot: SlotOfChange) -> None:
        self._sim = sim
        self._slot = slot
        self._assigned = Assignment()
        self._writers: dict[int, tuple[int, str]] = {}
        """By slot: the epoch in which its owner began to write, and the owner."""
        self._unowned_since: float | None = None

    def changed(self, call: Call | None, bucket: Bucket, change: Change) -> None:
        """Judge a change."""
        obj = change.record.obj
        metadata = obj["metadata"]
        if bucket.resource.startswith("leases."):
            text = (metadata.get("annotations") or {}).get(ASSIGNED)
            if text and change.type != "DELETED":
                self._assigned = decode(text)
                self._look_for_unowned()
            return
        if call is not None and (slot := self._slot(call, bucket, change)) is not None:
            self._written(call, slot)

    def _written(self, call: Call, slot: int) -> None:
        member = call.process.root.name if call.process is not None else ""
        if member not in {each.name for each in self._sim.replicas}:
            return
        owner = self._assigned.slots[slot]
        epoch, writer = self._writers.get(slot, (0, ""))
        if member == owner.owner:
            self._writers[slot] = (owner.since, member)
        elif epoch >= owner.since and writer != member:
            what = (
                f"{member} writes {call.path} of slot {slot}, and {writer} does since epoch {epoch}"
            )
            self._sim.breaks(TWO_WRITERS, what)

    def _look_for_unowned(self) -> None:
        now = self._sim.now().timestamp()
        if len(self._assigned.owners) == SLOTS:
            self._unowned_since = None
        elif self._unowned_since is None:
            self._unowned_since = now
        elif now > self._unowned_since + _HELD:
            self._sim.breaks(UNOWNED, f"slots have no owner for {now - self._unowned_since:g} s")

    def answered(self, call: Call) -> None:
        """Leave it: requests alone change nothing."""
