"""What becomes of the objects of a set that is being deleted.

As a rule the garbage collector deletes them with the set. Where the set goes with its CRD they are released before:
disks, keys and Pods stay, as after `kubectl delete --cascade=orphan`. Objects of a set on a data plane are on the hub,
where no garbage collector has the set: they are deleted, or released, before it goes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from apis.cosmos import CosmosFullNode
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.controller.orphan_requests import OrphanRequests
from ctrlruntime.resources import Definitions, Owner
from internal.cosmos.fullnode.objects import Objects
from internal.cosmos.labels import APPROVE_DELETION, FINALIZER


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
    definitions: Definitions
    patcher: ObjectPatcher
    orphan_requests: OrphanRequests | None = None
    """Which sets are deleted with `--cascade=orphan`, where the objects are in another cluster; None: in the same."""

    async def protect(self, entry: Entry) -> bool:
        """Put the finalizer on. Returns False if it was there. Raises the client's errors."""
        if FINALIZER in entry.finalizers:
            return False
        await self.patcher.add_finalizer(CosmosFullNode.mapping(), entry, FINALIZER)
        return True

    async def finish(self, entry: Entry, owner: Owner, *, held: bool = False) -> Finish:
        """Let a deleted set go, unless a freeze holds it or objects of the hub are left.

        Raises the client's errors: in doubt it stays, with its objects.
        """
        if FINALIZER not in entry.finalizers:
            return Finish.GONE
        mapping = CosmosFullNode.mapping()
        if await self.definitions.any_removes([mapping], APPROVE_DELETION):
            await self._release(owner)
        elif held:
            return Finish.HELD
        elif self.orphan_requests is not None:
            if self.orphan_requests.has(entry):
                await self._release(owner)
            elif await self._delete(owner):
                return Finish.CLEANING
        await self.patcher.remove_finalizer(mapping, entry, FINALIZER)
        return Finish.GONE

    async def _release(self, owner: Owner) -> None:
        for each in self.objects:
            await each.release(owner)

    async def _delete(self, owner: Owner) -> int:
        """Delete what is left, and return how many objects that is."""
        return sum([await each.delete_all(owner) for each in self.objects])
