"""What becomes of the objects of a set that is being deleted.

As a rule the garbage collector deletes them with the set, once the gate has let its disks go: until then the set waits.
With `volumeRetentionPolicy: Retain` disks and keys are released, and stay. Where the set goes with its CRD they are released before:
disks, keys and Pods stay, as after `kubectl delete --cascade=orphan`. Objects of a set on a data plane are on the hub,
where no garbage collector has the set: they are deleted, or released, before it goes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from apis.cosmos import CosmosFullNode, RetentionPolicy
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.controller.orphan_requests import OrphanRequests
from ctrlruntime.gate import Cause, Hold, Permit
from ctrlruntime.gate import Removal as GateRemoval
from ctrlruntime.resources import Definitions, Owner
from internal.cosmos.fullnode.disk_removals import hold_of_deletion
from internal.cosmos.fullnode.objects import Objects
from internal.cosmos.labels import APPROVE_DELETION, FINALIZER
from internal.cosmos.workload.lost_disks import losing_disks
from internal.removal_holds import LostRecords


class Finish(StrEnum):
    """What became of a set that is being deleted."""

    GONE = "gone"
    """It was let go."""
    HELD = "held"
    """A freeze holds it."""
    CLEANING = "cleaning"
    """Objects of the hub are left, and are being deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Holds a set by a finalizer until that is decided."""

    objects: Sequence[Objects]
    """By kind, in the order in which they are released."""
    disks: Objects
    """The claims."""
    pods: Objects
    """What uses them."""
    keys: Objects
    """The keys of nodes, which stay where the disks do."""
    definitions: Definitions
    patcher: ObjectPatcher
    clock: Callable[[], datetime]
    """The time that approvals go by."""
    lost: LostRecords
    """Sets whose status was lost, with what it records of disks."""
    orphan_requests: OrphanRequests | None = None
    """Which sets are deleted with `--cascade=orphan`, where the objects are in another cluster; None: in the same."""

    @property
    def state(self) -> tuple[Objects, Objects]:
        """What cannot be created again."""
        return self.disks, self.keys

    async def protect(self, entry: Entry) -> bool:
        """Put the finalizer on. Returns False if it was there. Raises the client's errors."""
        if FINALIZER in entry.finalizers:
            return False
        await self.patcher.add_finalizer(CosmosFullNode.mapping(), entry, FINALIZER)
        return True

    async def report_loss(self, entry: Entry, *, disks_known: bool = True) -> bool:
        """Report that the record of deleted disks is lost with the status. Return whether to read the set again.

        `disks_known`: False where disks are in another cluster that does not answer: there may be some.
        """
        if FINALIZER not in entry.finalizers:
            return False
        owner = Owner.of(entry)
        return await self.lost.report(entry, lambda: not disks_known or bool(self.disks.of(owner)))

    async def finish(self, entry: Entry, owner: Owner, *, frozen: bool = False) -> Finish | Hold:
        """Let a deleted set go, unless a freeze or its protection holds it, or objects of the hub are left.

        Returns what its protection holds: all of its disks. Raises the client's errors: in doubt it stays, with its
        objects.
        """
        if FINALIZER not in entry.finalizers:
            return Finish.GONE
        mapping = CosmosFullNode.mapping()
        definition = await self.definitions.of(mapping)
        if definition.removes(APPROVE_DELETION):
            await self._release(self.objects, owner)
        elif frozen:
            return Finish.HELD
        elif self.orphan_requests is not None and self.orphan_requests.has(entry):
            await self._release(self.objects, owner)
        else:
            uninstalled = definition.terminating or not definition.exists
            left = await self._delete(entry, owner, uninstalled=uninstalled)
            if isinstance(left, Hold):
                return left
            if left:
                return Finish.CLEANING
        await self.patcher.remove_finalizer(mapping, entry, FINALIZER)
        return Finish.GONE

    async def _delete(self, entry: Entry, owner: Owner, *, uninstalled: bool) -> int | Hold:
        """Keep or give up what holds state. Return how many objects of the hub are left, or what is held.

        `uninstalled`: a person has approved that all sets go with their CRD.
        """
        objects, retained = self.objects, retains_all(entry)
        if retained or not uninstalled:
            removals = self._disks(owner, losing=retained)
            hold = hold_of_deletion(entry, removals, self.clock(), retained=retained)
            if hold is not None:
                return hold
        if retained:
            await self._release(self.state, owner)
            objects = [each for each in objects if each not in self.state]
        if self.orphan_requests is None:
            return 0
        return sum([await each.delete_all(owner) for each in objects])

    def _disks(self, owner: Owner, *, losing: bool) -> list[GateRemoval]:
        """Return the disks that go with a set: those with its owner reference, and on a hub all of its own.

        A claim that is being deleted is one as long as a Pod uses it. `losing`: only those.
        """
        claims = list(self.disks.of(owner).values())
        used = {each.claim for each in losing_disks(self.pods.of(owner).values(), claims).values()}
        found = [
            each
            for each in claims
            if each.name in used or (each.deletion_timestamp is None and not losing)
        ]
        if self.orphan_requests is None:
            found = [each for each in found if any(ref.uid == owner.uid for ref in each.owners)]
        control = self.disks.control
        permits = [control.permit(each, owner, Cause.PARENT_DELETED) for each in found]
        return [each.removal for each in permits if isinstance(each, Permit)]

    async def _release(self, objects: Sequence[Objects], owner: Owner) -> None:
        for each in objects:
            await each.release(owner)


def retains_all(entry: Entry) -> bool:
    """Whether the disks of a set stay when it is deleted."""
    policy = (entry.field("spec") or {}).get("volumeRetentionPolicy")
    return bool(policy == RetentionPolicy.RETAIN)
