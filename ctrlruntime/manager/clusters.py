"""The further clusters of a manager, from engagement to disengagement."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator

from structlog.typing import FilteringBoundLogger

from ctrlruntime.cache.errors import CacheSyncTimeout
from ctrlruntime.client.protected_namespaces import ProtectedNamespaces
from ctrlruntime.cluster.cluster import Cluster
from ctrlruntime.cluster.selection import LOCAL_NAME, ClusterNotFound
from ctrlruntime.manager.runnables import Group


class Clusters:
    """Starts engaged clusters in the group of caches. What starts later waits for the required ones alone."""

    runnable_group = Group.CACHES
    needs_leader_election = False

    def __init__(self, logger: FilteringBoundLogger, protected: ProtectedNamespaces) -> None:
        """`protected`: where nothing is written, in none of them."""
        self._protected = protected
        self._logger = logger
        self._engaged: dict[str, Cluster] = {}
        self._leaving: dict[str, Cluster] = {}
        self._started: dict[Cluster, None] = {}  # in the order they began
        self._running = False
        self.added = False
        """Whether any cluster was ever added."""

    def __repr__(self) -> str:
        return f"Clusters({', '.join(sorted(self._engaged))})"

    def __iter__(self) -> Iterator[Cluster]:
        """Iterate over the engaged clusters."""
        return iter(list(self._engaged.values()))

    def all(self) -> list[Cluster]:
        """Return the engaged clusters and those that are being disengaged."""
        return [*self._engaged.values(), *self._leaving.values()]

    def required(self) -> list[Cluster]:
        """Return the engaged clusters that readiness waits for."""
        return [each for each in self if each.options.required]

    def get(self, name: str) -> Cluster:
        """Return an engaged cluster. Raises ClusterNotFound."""
        cluster = self._engaged.get(name)
        if cluster is None:
            raise ClusterNotFound(name)
        return cluster

    def add(self, cluster: Cluster) -> None:
        """Add a cluster. Raises ValueError for an empty name and for one in use."""
        name = cluster.name
        if name == LOCAL_NAME:
            raise ValueError("a further cluster needs a name: the empty one is the manager's own")
        if name in self._engaged:
            raise ValueError(f"there is a cluster {name!r} already: engage each under its own name")
        if name in self._leaving:
            raise ValueError(
                f"cluster {name!r} is being disengaged: wait for disengage() to return"
            )
        self.added = True
        cluster.cache.protected = self._protected
        self._engaged[name] = cluster

    def remove(self, name: str) -> Cluster | None:
        """Take a cluster out, or return None; its name stays in use until :meth:`forget`."""
        cluster = self._engaged.pop(name, None)
        if cluster is not None:
            self._leaving[name] = cluster
            self._started.pop(cluster, None)
            cluster.end_reporting()
            self._logger.info("Cluster disengaged", cluster=name)
        return cluster

    def forget(self, name: str) -> None:
        """Free the name of a cluster that has ended."""
        self._leaving.pop(name, None)

    async def start(self) -> None:
        """Start the clusters, and stop their caches when cancelled."""
        self._running = True
        try:
            for cluster in self:
                await self.start_late(cluster)
            await asyncio.Event().wait()
        finally:
            self._running = False
            await asyncio.gather(*(cluster.cache.stop() for cluster in self._started))

    async def catch_up(self, own: Cluster) -> None:
        """Have all caches hold what their servers have now, ``own`` and those engaged; within seconds."""
        caches = [own.cache, *(each.cache for each in self._started)]
        await asyncio.gather(*(each.catch_up() for cache in caches for each in cache.informers()))

    async def wait_ready(self) -> None:
        """Wait for the required clusters. Raises CacheSyncTimeout naming one and its kinds."""
        await asyncio.gather(*(_wait_started(cluster) for cluster in self.required()))

    async def start_late(self, cluster: Cluster) -> None:
        """Start a cluster if the others run; before, nothing happens."""
        if not self._running or cluster in self._started or cluster not in self._engaged.values():
            return
        self._started[cluster] = None
        self._logger.info("Cluster engaged", cluster=cluster.name, host=cluster.config.host)
        await cluster.start()


async def _wait_started(cluster: Cluster) -> None:
    try:
        await cluster.cache.wait_started(cluster.options.sync_timeout)
    except CacheSyncTimeout as error:
        raise CacheSyncTimeout(f"cluster {cluster.name!r}, which is required: {error}") from error


def unsynced_kinds(clusters: Iterable[Cluster]) -> list[str]:
    """Return the kinds that have not synced, each with the type of its last error."""
    return [
        f"{each.name + ': ' if each.name else ''}{kind} ({type(error).__name__ if error else 'no answer'})"
        for each in clusters
        for kind, error in each.cache.unsynced().items()
    ]


def failed_kinds(clusters: Iterable[Cluster]) -> list[str]:
    """Return the kinds whose informer keeps failing, each with its last error."""
    return [
        f"{each.name + ': ' if each.name else ''}{kind}: {error}"
        for each in clusters
        for kind, error in each.cache.failed().items()
    ]


def missing_kinds(clusters: Iterable[Cluster]) -> str:
    """Return which kinds are waited for because a server does not have them; nothing where there are none."""
    missing = [
        f"{each.name + ': ' if each.name else ''}{informer.gvk}"
        for each in clusters
        for informer in each.cache.informers()
        if informer.missing_since is not None
    ]
    return f"waiting for the CRD of {'; '.join(missing)}" if missing else ""
