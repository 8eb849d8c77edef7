"""The hub as a second cluster of a manager whose own cluster is a data plane."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from apis.fleet.labels import DATA_PLANE
from ctrlruntime.api.kinds import GroupKind, GroupVersionKind
from ctrlruntime.cache import InformerOptions, KindCacheOptions
from ctrlruntime.cache.cache import CacheOptions
from ctrlruntime.client.config import Config
from ctrlruntime.cluster import Cluster, ClusterOptions
from ctrlruntime.lifecycle.remote import ClusterTrouble
from ctrlruntime.manager import Manager
from ctrlruntime.resources import Desired, ObjectKey
from internal.fleet.hub import GRACE, PROBE_PERIOD, HubMonitor, HubTrouble, explain
from internal.fleet.routing import (
    Plane,
    annotated_kinds,
    check_plane,
    doubts,
    possible_planes,
    route,
)
from internal.tenancy.shared.naming import LOCAL
from manager.controllers.hub_secrets import guard_namespaces, secret_namespaces

HUB = "hub"
"""The name of the hub's cluster: in logs, metrics and keys of applied resources."""
PROBE_TIMEOUT = 5.0
CATCH_UP_SECONDS = 120.0
"""How long the informers of a hub that answers again may take to hold what it has."""
SECRET = GroupVersionKind("", "v1", "Secret")
STORAGE_CLASS = GroupVersionKind("storage.k8s.io", "v1", "StorageClass")
"""Shared by all data planes: claims of each of them name those that the hub has."""

_CLUSTERS = {Plane.DATA: (LOCAL,), Plane.HUB: (HUB,), Plane.BOTH: (LOCAL, HUB)}


@dataclass(frozen=True, slots=True, kw_only=True)
class StackOptions:
    """Options of a stack. Times in seconds."""

    data_plane: str
    """The id of the data plane: the UID of its namespace `kube-system`."""
    target_namespace: str
    """The namespace of the hub that the stack is deployed to."""
    grace: float = GRACE
    """Without an answer of the hub before tenants report that."""
    probe_period: float = PROBE_PERIOD
    restrict_secrets: bool = False
    """Watch Secrets in the parallel namespaces and the target namespace alone."""


class HubPlacement:
    """Where objects of tenants go, by the routing of the fleet system."""

    def possible(
        self, kinds: Collection[GroupKind], manifests: Iterable[Mapping[str, Any]] = ()
    ) -> Mapping[GroupKind, Collection[str]]:
        """Return the clusters in which objects of the kinds of one tenant may be."""
        found = possible_planes(kinds, annotated_kinds(manifests))
        return {kind: _CLUSTERS[plane] for kind, plane in found.items()}

    def doubts(self, rendered: Sequence[Desired]) -> Mapping[ObjectKey, str]:
        """Return why objects may be in the wrong cluster, each in one sentence."""
        manifests = [each.manifest for each in rendered]
        return doubts(manifests, route(manifests))

    def clusters_of(self, rendered: Sequence[Desired]) -> Mapping[ObjectKey, tuple[str, ...]]:
        """Return the clusters that get each object."""
        planes = route(each.manifest for each in rendered)
        return {key: _CLUSTERS[plane] for key, plane in planes.items()}


@dataclass(slots=True)
class Hub:
    """The hub's cluster, and what the tenancy system needs to know of it."""

    cluster: Cluster
    options: StackOptions
    monitor: HubMonitor
    placement: HubPlacement = field(default_factory=HubPlacement)

    @property
    def data_plane(self) -> str:
        """The id of the data plane."""
        return self.options.data_plane

    @property
    def labels(self) -> dict[str, str]:
        """Of every object on the hub; every informer selects them."""
        return {DATA_PLANE: self.options.data_plane}

    def explain(self, error: Exception, namespace: str) -> ClusterTrouble | None:
        """Return what is wrong with the hub, from an error of a write."""
        self.monitor.failed(error)
        return _as_trouble(explain(error, namespace, self.options.target_namespace))

    def unreachable(self) -> ClusterTrouble | None:
        """Return that the hub has not answered for a while."""
        return _as_trouble(self.monitor.unreachable())

    def check_data_plane(self, kind: GroupKind) -> None:
        """Raise WorkloadOnDataPlane for a workload."""
        check_plane(kind, Plane.DATA)


async def add_hub(manager: Manager, config: Config, options: StackOptions) -> Hub:
    """Engage the hub. Nothing waits for it: what is only on the data plane is reconciled without it."""
    monitor = HubMonitor(grace=options.grace, period=options.probe_period)

    def failed(_kind: GroupVersionKind, error: Exception) -> None:
        monitor.failed(error)

    kinds = {STORAGE_CLASS: KindCacheOptions(unselected=True)}
    if options.restrict_secrets:
        namespaces = await secret_namespaces(config, options.target_namespace, manager.logger)
        kinds[SECRET] = KindCacheOptions(namespaces=namespaces)
        await guard_namespaces(manager, config, options.target_namespace, namespaces)
    cache = CacheOptions(
        labels=f"{DATA_PLANE}={options.data_plane}",
        kinds=kinds,
        informers=InformerOptions(on_error=failed),
    )
    cluster = manager.new_cluster(HUB, config, ClusterOptions(cache=cache))
    transport = cluster.live_client.transport
    monitor.probe = lambda: transport.request("GET", "/version", timeout=PROBE_TIMEOUT)
    monitor.catch_up = lambda: asyncio.gather(
        *(each.catch_up(CATCH_UP_SECONDS) for each in cluster.cache.informers())
    )
    manager.add(monitor)
    await manager.engage(cluster)
    return Hub(cluster, options, monitor)


def _as_trouble(found: HubTrouble | None) -> ClusterTrouble | None:
    return None if found is None else ClusterTrouble(found.reason.value, found.message)
