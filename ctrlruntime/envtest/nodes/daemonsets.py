"""DaemonSets: one Pod on the one node."""

from __future__ import annotations

from ctrlruntime.controller.reconcile import Result
from ctrlruntime.envtest.nodes.cluster import OfCluster
from ctrlruntime.envtest.nodes.kinds import DAEMON_SET, POD, Manifest
from ctrlruntime.envtest.nodes.podshape import pod_of, random_suffix, template_hash
from ctrlruntime.envtest.nodes.status import without_zeros
from ctrlruntime.queue import Request

HASH = "controller-revision-hash"


class DaemonSetReconciler(OfCluster):
    """As the daemonset controller on a cluster of one node, whatever the node selector."""

    async def reconcile(self, request: Request) -> Result | None:
        daemon_set = self._cluster.live(DAEMON_SET, request)
        if daemon_set is None:
            return None
        revision = template_hash(daemon_set["spec"]["template"])
        await self._step(daemon_set, revision)
        pods = [pod for pod in self._cluster.pods_of(daemon_set) if pod.active]
        updated = sum(pod.entry.labels.get(HASH) == revision for pod in pods)
        ready = sum(pod.ready for pod in pods)
        status = daemon_status(daemon_set, len(pods), updated, ready)
        await self._cluster.set_status(DAEMON_SET, daemon_set, status)
        return None

    async def _step(self, daemon_set: Manifest, revision: str) -> None:
        pods = self._cluster.pods_of(daemon_set)
        on_delete = (daemon_set["spec"].get("updateStrategy") or {}).get("type") == "OnDelete"
        for pod in pods:
            outdated = pod.entry.labels.get(HASH) != revision and not on_delete
            if not pod.deleting and (pod.finished or outdated):
                await self._cluster.delete(POD, pod.entry)
        if any(pod.active for pod in self._cluster.pods_of(daemon_set)):
            return
        name = f"{daemon_set['metadata']['name']}-{random_suffix()}"
        template = daemon_set["spec"]["template"]
        await self._cluster.client.create(pod_of(daemon_set, template, name, {HASH: revision}))


def daemon_status(daemon_set: Manifest, scheduled: int, updated: int, ready: int) -> Manifest:
    counts = {
        "observedGeneration": daemon_set["metadata"]["generation"],
        "currentNumberScheduled": scheduled,
        "desiredNumberScheduled": 1,
        "numberMisscheduled": 0,
        "numberReady": ready,
        "numberAvailable": ready,
        "numberUnavailable": 1 - min(ready, 1),
        "updatedNumberScheduled": updated,
    }
    return without_zeros(
        counts,
        "currentNumberScheduled",
        "desiredNumberScheduled",
        "numberMisscheduled",
        "numberReady",
    )
