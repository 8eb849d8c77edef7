"""StatefulSets: ordered Pods with stable names, and claims from templates."""

from __future__ import annotations

import copy

from ctrlruntime.client.errors import AlreadyExists
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.envtest.nodes.cluster import OfCluster
from ctrlruntime.envtest.nodes.kinds import CLAIM, MOST_PODS, POD, STATEFUL_SET, Manifest
from ctrlruntime.envtest.nodes.podshape import PodView, pod_of, template_hash
from ctrlruntime.queue import Request

REVISION_LABEL = "controller-revision-hash"


class StatefulSetReconciler(OfCluster):
    """As the statefulset controller. Claims are retained; there are no ControllerRevisions."""

    async def reconcile(self, request: Request) -> Result | None:
        stateful_set = self._cluster.live(STATEFUL_SET, request)
        if stateful_set is None:
            return None
        revision = revision_of(stateful_set)
        await self._step(stateful_set, revision)
        pods = self._cluster.pods_of(stateful_set)
        status = stateful_status(stateful_set, pods, revision)
        await self._cluster.set_status(STATEFUL_SET, stateful_set, status)
        return None

    async def _step(self, stateful_set: Manifest, revision: str) -> None:
        """One step, or with podManagementPolicy Parallel all there are."""
        spec = stateful_set["spec"]
        parallel = spec.get("podManagementPolicy") == "Parallel"
        pods = {ordinal(pod.name): pod for pod in self._cluster.pods_of(stateful_set)}
        start = (spec.get("ordinals") or {}).get("start", 0)
        wanted = range(start, start + min(spec.get("replicas", 1), MOST_PODS))
        for index in wanted:
            pod = pods.get(index)
            if pod is None:
                await self._create(stateful_set, index, revision)
            elif pod.finished and not pod.deleting:
                await self._cluster.delete(POD, pod.entry)
            if not parallel and (pod is None or not pod.ready):
                return
        surplus = sorted((i for i in pods if i not in wanted), reverse=True)
        for index in surplus:
            if not pods[index].deleting:
                await self._cluster.delete(POD, pods[index].entry)
            if not parallel:
                return
        await self._update(spec, [pods[i] for i in reversed(wanted) if i in pods], revision)

    async def _update(self, spec: Manifest, pods: list[PodView], revision: str) -> None:
        """Replace one outdated Pod, highest ordinal first, while all others are ready."""
        strategy = spec.get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
        for pod in pods:
            if ordinal(pod.name) < partition:
                return
            if pod.entry.labels.get(REVISION_LABEL) != revision:
                if not pod.deleting:
                    await self._cluster.delete(POD, pod.entry)
                return
            if not pod.ready:
                return

    async def _create(self, stateful_set: Manifest, index: int, revision: str) -> None:
        metadata, spec = stateful_set["metadata"], stateful_set["spec"]
        name = f"{metadata['name']}-{index}"
        template = copy.deepcopy(spec["template"])
        pod_spec = template.setdefault("spec", {})
        pod_spec["hostname"] = name
        if spec.get("serviceName"):
            pod_spec["subdomain"] = spec["serviceName"]
        claims = {c["metadata"]["name"]: c for c in spec.get("volumeClaimTemplates", [])}
        volumes = [v for v in pod_spec.get("volumes", []) if v["name"] not in claims]
        for claim_name, claim in claims.items():
            full_name = f"{claim_name}-{name}"
            await self._claim(stateful_set, claim, full_name)
            source = {"persistentVolumeClaim": {"claimName": full_name}}
            volumes.append({"name": claim_name, **source})
        if volumes:
            pod_spec["volumes"] = volumes
        labels = {
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(index),
            REVISION_LABEL: revision,
        }
        await self._cluster.client.create(pod_of(stateful_set, template, name, labels))

    async def _claim(self, stateful_set: Manifest, template: Manifest, name: str) -> None:
        metadata = stateful_set["metadata"]
        if self._cluster.cache.entry(CLAIM, name, namespace=metadata["namespace"]) is not None:
            return
        labels = stateful_set["spec"]["selector"].get("matchLabels") or {}
        given = template["metadata"]
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {
                "name": name,
                "namespace": metadata["namespace"],
                "labels": {**(given.get("labels") or {}), **labels},
                "annotations": dict(given.get("annotations") or {}),
            },
            "spec": copy.deepcopy(template["spec"]),
        }
        try:
            await self._cluster.client.create(claim)
        except AlreadyExists:
            return


def ordinal(name: str) -> int:
    """Return the number at the end of a Pod's name; -1 where there is none."""
    number = name.rpartition("-")[2]
    return int(number) if number.isdigit() else -1


def revision_of(stateful_set: Manifest) -> str:
    return f"{stateful_set['metadata']['name']}-{template_hash(stateful_set['spec']['template'])}"


def stateful_status(stateful_set: Manifest, pods: list[PodView], revision: str) -> Manifest:
    """Count and revisions; currentRevision follows once every Pod is of the new one."""
    before = stateful_set.get("status") or {}
    existing = [pod for pod in pods if pod.active]
    ready = sum(pod.ready for pod in existing)
    updated = sum(pod.entry.labels.get(REVISION_LABEL) == revision for pod in existing)
    wanted = stateful_set["spec"].get("replicas", 1)
    done = updated == len(existing) == wanted and ready == wanted
    current = revision if done else before.get("currentRevision", revision)
    on_current = sum(pod.entry.labels.get(REVISION_LABEL) == current for pod in existing)
    status: Manifest = {
        "observedGeneration": stateful_set["metadata"]["generation"],
        "replicas": len(existing),
        "availableReplicas": ready,
        "currentRevision": current,
        "updateRevision": revision,
        "collisionCount": 0,
    }
    counts = {
        "readyReplicas": ready,
        "currentReplicas": on_current,
        "updatedReplicas": updated,
    }
    return status | {key: count for key, count in counts.items() if count}
