"""What every simulated controller works with: reads of the cache, writes of differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.cache import Cache
from ctrlruntime.cache.cached import CachedClient
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import NotFound
from ctrlruntime.client.patches import PatchType
from ctrlruntime.clock import utc_now
from ctrlruntime.envtest.nodes.addresses import PodAddresses
from ctrlruntime.envtest.nodes.kinds import POD, Manifest
from ctrlruntime.envtest.nodes.podshape import PodView
from ctrlruntime.envtest.nodes.status import difference
from ctrlruntime.queue import Request


@dataclass(frozen=True, kw_only=True)
class NodeOptions:
    """How the simulated nodes behave. Times in seconds.

    Without `pods` workloads become ready by one status write each, with no ReplicaSet and no Pod.
    `start_delay` is how long a Pod stays Pending. `run_local` runs commands of Pods that ask for
    it; only for servers that the environment itself started. `namespaces` are those looked after,
    None for all.
    """

    pods: bool = True
    start_delay: float = 0.0
    run_local: bool = False
    workers: int = 4
    namespaces: tuple[str, ...] | None = None


class Cluster:
    """The cache, and writes that are left out where they would change nothing."""

    def __init__(
        self,
        cache: Cache,
        client: CachedClient,
        options: NodeOptions,
        *,
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        self.cache = cache
        self.client = client
        self.options = options
        self.addresses = PodAddresses()
        self.now = clock

    def live(self, kind: GroupVersionKind, request: Request) -> Manifest | None:
        """Return the object, unless it is gone or on its way out."""
        entry = self.cache.entry(kind, request.name, namespace=request.namespace)
        return None if entry is None or entry.deletion_timestamp else entry.decode()

    def owned(self, kind: GroupVersionKind, owner: Manifest) -> list[Entry]:
        """Return what `owner` controls, sorted by name."""
        uid = owner["metadata"]["uid"]
        found = self.cache.entries(kind, index={"owner": uid})
        return [e for e in found if e.controller is not None and e.controller.uid == uid]

    def pods_of(self, owner: Manifest) -> list[PodView]:
        return [PodView(entry) for entry in self.owned(POD, owner)]

    async def set_status(self, kind: GroupVersionKind, obj: Manifest, desired: Manifest) -> bool:
        """Write the status if it differs; True if it did."""
        patch = difference(obj.get("status") or {}, desired)
        if not patch:
            return False
        metadata = obj["metadata"]
        await self.patch(
            kind, metadata["name"], {"status": patch}, "status", namespace=metadata["namespace"]
        )
        return True

    async def patch(
        self,
        kind: GroupVersionKind,
        name: str,
        patch: Manifest,
        subresource: str | None = None,
        *,
        namespace: str,
    ) -> None:
        """Send a merge patch; an object that was deleted meanwhile is ignored."""
        try:
            await self.client.patch(
                kind,
                name,
                patch,
                namespace=namespace,
                type=PatchType.MERGE,
                subresource=subresource,
            )
        except NotFound:
            return

    async def delete(self, kind: GroupVersionKind, entry: Entry, *, now: bool = False) -> None:
        """Delete this very object; `now` without a grace period."""
        try:
            await self.client.delete(
                kind,
                entry.name,
                namespace=entry.namespace,
                uid=entry.uid,
                grace_period=0 if now else None,
                propagation="Background",
            )
        except NotFound:
            return
