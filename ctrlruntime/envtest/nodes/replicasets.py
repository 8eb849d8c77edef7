"""ReplicaSets: as many Pods as asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable

from ctrlruntime.controller.reconcile import Result
from ctrlruntime.envtest.nodes.cluster import OfCluster
from ctrlruntime.envtest.nodes.kinds import MOST_PODS, POD, REPLICA_SET, Manifest
from ctrlruntime.envtest.nodes.podshape import PodView, pod_of, random_suffix
from ctrlruntime.envtest.nodes.status import without_zeros
from ctrlruntime.queue import Request

AT_ONCE = 50
"""Pods created or deleted side by side."""


class ReplicaSetReconciler(OfCluster):
    """As the replicaset controller, without adoption."""

    async def reconcile(self, request: Request) -> Result | None:
        replica_set = self._cluster.live(REPLICA_SET, request)
        if replica_set is None:
            return None
        pods = self._cluster.pods_of(replica_set)
        wanted = min(replica_set["spec"].get("replicas", 1), MOST_PODS)
        active = [pod for pod in pods if pod.active]
        if len(active) < wanted:
            await self._create(replica_set, wanted - len(active))
        elif len(active) > wanted:
            # Pods that are not ready go first; then, for a stable choice, by name.
            surplus = sorted(active, key=lambda p: (p.ready, p.name))[: len(active) - wanted]
            await self._each(self._cluster.delete(POD, pod.entry) for pod in surplus)
        await self._each(
            self._cluster.delete(POD, p.entry) for p in pods if p.finished and not p.deleting
        )
        active = [pod for pod in self._cluster.pods_of(replica_set) if pod.active]
        await self._cluster.set_status(REPLICA_SET, replica_set, status(replica_set, active))
        return None

    async def _create(self, replica_set: Manifest, count: int) -> None:
        name, template = replica_set["metadata"]["name"], replica_set["spec"]["template"]
        names = [f"{name}-{random_suffix()}" for _ in range(count)]
        await self._each(
            self._cluster.client.create(pod_of(replica_set, template, pod)) for pod in names
        )

    async def _each(self, writes: Iterable[Awaitable[object]]) -> None:
        pending = list(writes)
        for start in range(0, len(pending), AT_ONCE):
            await asyncio.gather(*pending[start : start + AT_ONCE])


def status(replica_set: Manifest, active: list[PodView]) -> Manifest:
    ready = sum(pod.ready for pod in active)
    counts = {
        "observedGeneration": replica_set["metadata"]["generation"],
        "replicas": len(active),
        "fullyLabeledReplicas": len(active),
        "readyReplicas": ready,
        "availableReplicas": ready,
    }
    return without_zeros(counts, "replicas")
