"""What becomes of the objects of a set that is being deleted.

As a rule the garbage collector deletes them with the set. Where the set goes with its CRD they are released before:
disks, keys and Pods stay, as after `kubectl delete --cascade=orphan`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from apis.cosmos import CosmosFullNode
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.resources import Definitions, Owner
from internal.cosmos.fullnode.objects import Objects
from internal.cosmos.labels import APPROVE_DELETION, FINALIZER


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """Holds a set by a finalizer until that is decided."""

    objects: Sequence[Objects]
    """By kind, in the order in which they are released."""
    definitions: Definitions
    patcher: ObjectPatcher

    async def protect(self, entry: Entry) -> bool:
        """Put the finalizer on. Returns False if it was there. Raises the client's errors."""
        if FINALIZER in entry.finalizers:
            return False
        await self.patcher.add_finalizer(CosmosFullNode.mapping(), entry, FINALIZER)
        return True

    async def finish(self, entry: Entry, owner: Owner, *, held: bool = False) -> bool:
        """Let a deleted set go, unless a freeze holds it; True if it does.

        Raises the client's errors: in doubt it stays, with its objects.
        """
        if FINALIZER not in entry.finalizers:
            return False
        mapping = CosmosFullNode.mapping()
        if await self.definitions.any_removes([mapping], APPROVE_DELETION):
            for each in self.objects:
                await each.release(owner)
        elif held:
            return True
        await self.patcher.remove_finalizer(mapping, entry, FINALIZER)
        return False
