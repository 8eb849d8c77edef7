"""The end of an instance's lease: whether it has come, what holds it, and the deletion that it means."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from apis.cloud import Instance
from ctrlruntime.cache.cache import CachedClient
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import Conflict, NotFound
from ctrlruntime.gate import Cause, Evidence
from ctrlruntime.queue import Request
from ctrlruntime.resources import removal_of, remove_object
from ctrlruntime.rollout import ChangeHolds, NoHolds, Waiting
from internal.cloud.instance.reading import read
from internal.cloud.labels import is_paused
from internal.cloud.leases import Lease, is_ephemeral, lease_of


def is_overdue(entry: Entry, now: datetime) -> bool:
    """Whether an instance is to be deleted at the end of its lease, and is not yet."""
    features = (entry.field("spec") or {}).get("instanceFeatures") or {}
    if entry.deletion_timestamp is not None or not is_ephemeral(features):
        return False
    instance, flaw = read(entry)
    lease = lease_of(instance, now)
    return flaw is None and lease.delete


@dataclass(slots=True)
class LeaseEnds:
    """Deletes instances whose lease has ended."""

    client: CachedClient
    clock: Callable[[], datetime]
    holds: ChangeHolds = field(default_factory=NoHolds)
    """What holds the ends of leases from outside."""

    async def enforce(self, instance: Instance, entry: Entry) -> Lease:
        """Delete the instance if its lease has ended and nothing holds it. Return its lease.

        `delete` of the result means that it was deleted. Raises the client's errors.
        """
        lease = lease_of(instance, self.clock())
        if not lease.delete:
            return lease
        frozen = self._frozen(entry)
        if frozen is not None:
            return Lease(message=f"The lease has ended. {frozen.message}.")
        if is_paused(entry.annotations):
            return Lease()
        await self._delete(entry)
        return lease

    def forget(self, request: Request) -> None:
        """Forget an instance that is gone."""
        self.holds.record(request, 0)

    def _frozen(self, entry: Entry) -> Waiting | None:
        """Return the freeze that keeps an instance whose lease has ended."""
        request = Request(entry.name, namespace=entry.namespace)
        hold = self.holds.waiting(request, entry)
        self.holds.record(request, int(hold is not None))
        return hold

    async def _delete(self, entry: Entry) -> None:
        """Delete the instance, unless its lease was extended at this very moment."""
        mapping = Instance.mapping()
        removal = removal_of(mapping, entry.metadata(), Cause.RETENTION, Evidence.CERTAIN)
        with contextlib.suppress(NotFound, Conflict):  # what changed brings it back
            await remove_object(
                self.client, mapping, removal, resource_version=entry.resource_version
            )
