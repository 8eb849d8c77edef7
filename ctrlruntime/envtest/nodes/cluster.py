"""What every simulated controller works with: reads of the cache, writes of differences."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.cache import Cache
from ctrlruntime.cache.cached import CachedClient
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import NotFound
from ctrlruntime.client.patches import PatchType
from ctrlruntime.clock import utc_now
from ctrlruntime.envtest.nodes.kinds import POD, Manifest
from ctrlruntime.envtest.nodes.podshape import PodView
from ctrlruntime.envtest.nodes.status import difference
from ctrlruntime.queue import Request

Key = tuple[str, str]
"""Namespace and name."""
_HOSTS = 254
"""Addresses in a network of 24 bits, without its first and its last."""
_NETWORKS = 127 * 256
"""Networks of 24 bits in the range."""


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


class OfCluster:
    """What a simulated controller is made of."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster


class PodAddresses:
    """Gives each Pod an address on loopback (127.128.0.0/9) that no other Pod has while it exists.

    A request to a simulated Pod reaches this machine, never a host of the network that it is in. Who listens at all
    addresses can play the Pods, and distinguish them by the address that a connection came to.
    """

    def __init__(self) -> None:
        self._by_pod: dict[Key, tuple[str, str]] = {}
        self._taken: set[str] = set()

    def of(self, pod: Mapping[str, Any]) -> str:
        """Return the Pod's address: the one that its status tells, or else one that goes by its UID."""
        metadata = pod["metadata"]
        key, uid = (metadata["namespace"], metadata["name"]), metadata["uid"]
        known = self._by_pod.get(key)
        if known is not None and known[0] == uid:
            return known[1]
        self.release(key)
        address = str((pod.get("status") or {}).get("podIP") or "") or self._free(uid)
        self._by_pod[key] = uid, address
        self._taken.add(address)
        return address

    def release(self, key: Key) -> None:
        """Forget a Pod that is gone."""
        known = self._by_pod.pop(key, None)
        if known is not None:
            self._taken.discard(known[1])

    def _free(self, uid: str) -> str:
        number = zlib.crc32(uid.encode())
        while (address := self._address(number)) in self._taken:
            number += 1
        return address

    def _address(self, number: int) -> str:
        network, host = divmod(number % (_NETWORKS * _HOSTS), _HOSTS)
        return f"127.{128 + network // 256}.{network % 256}.{1 + host}"
