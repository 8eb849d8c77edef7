"""Deployments: ReplicaSets by template, rolled over, with an honest status."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from ctrlruntime.api.meta import set_controller_reference
from ctrlruntime.cache.entry import Entry
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.envtest.nodes.cluster import OfCluster
from ctrlruntime.envtest.nodes.kinds import DEPLOYMENT, HASH_LABEL, REPLICA_SET, REVISION, Manifest
from ctrlruntime.envtest.nodes.podshape import template_hash, with_hash
from ctrlruntime.envtest.nodes.status import condition, conditions, parse_timestamp, without_zeros
from ctrlruntime.queue import Request


class ReplicaSetView:
    """A ReplicaSet as its Deployment sees it."""

    def __init__(self, entry: Entry) -> None:
        spec, status = entry.field("spec") or {}, entry.field("status") or {}
        self.entry = entry
        self.hash = entry.labels.get(HASH_LABEL, "")
        self.revision = int(entry.annotations.get(REVISION, "0"))
        self.wanted: int = spec.get("replicas", 1)
        self.exists: int = status.get("replicas", 0)
        self.ready: int = status.get("readyReplicas", 0)
        self.available: int = status.get("availableReplicas", 0)

    @property
    def scale(self) -> Scale:
        return Scale(
            name=self.entry.name,
            wanted=self.wanted,
            exists=self.exists,
            available=self.available,
        )


class DeploymentReconciler(OfCluster):
    """As the deployment controller, without adoption of ReplicaSets it did not make."""

    async def reconcile(self, request: Request) -> Result | None:
        deployment = self._cluster.live(DEPLOYMENT, request)
        if deployment is None:
            return None
        spec = deployment["spec"]
        wanted_hash = template_hash(spec["template"])
        if not spec.get("paused"):
            await self._roll(deployment, wanted_hash)
        sets = self._sets(deployment)
        new = next((s for s in sets if s.hash == wanted_hash), None)
        if new is not None:
            await self._show_revision(deployment, new)
        await self._prune(spec, sets, new)
        status = self._status(deployment, sets, new)
        await self._cluster.set_status(DEPLOYMENT, deployment, status)
        return self._deadline(spec, status)

    def _sets(self, deployment: Manifest) -> list[ReplicaSetView]:
        return [ReplicaSetView(e) for e in self._cluster.owned(REPLICA_SET, deployment)]

    async def _roll(self, deployment: Manifest, wanted_hash: str) -> None:
        """Make the new ReplicaSet where it is missing, and set sizes."""
        spec, sets = deployment["spec"], self._sets(deployment)
        replicas = spec.get("replicas", 1)
        revision = max((s.revision for s in sets), default=0)
        new = next((s for s in sets if s.hash == wanted_hash), None)
        old = sorted((s for s in sets if s is not new), key=lambda s: s.revision)
        if new is None:
            scale = Scale(name="", wanted=0, exists=0, available=0)
            sizes = plan(replicas, spec.get("strategy", {}), scale, [s.scale for s in old])
            await self._create(deployment, wanted_hash, revision + 1, sizes.get("", 0))
            return
        if new.revision < revision:
            annotations = {REVISION: str(revision + 1)}
            await self._patch_set(new, {"metadata": {"annotations": annotations}})
        sizes = plan(replicas, spec.get("strategy", {}), new.scale, [s.scale for s in old])
        for view in sets:
            size = sizes.get(view.entry.name)
            if size is not None:
                await self._patch_set(view, {"spec": {"replicas": size}})

    async def _create(
        self, deployment: Manifest, wanted_hash: str, revision: int, size: int
    ) -> None:
        metadata, spec = deployment["metadata"], deployment["spec"]
        template = with_hash(spec["template"], wanted_hash)
        selector = spec["selector"]
        labels = {**(selector.get("matchLabels") or {}), HASH_LABEL: wanted_hash}
        replica_set = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "name": f"{metadata['name']}-{wanted_hash}",
                "namespace": metadata["namespace"],
                "labels": template["metadata"]["labels"],
                "annotations": {REVISION: str(revision)},
            },
            "spec": {
                "replicas": size,
                "minReadySeconds": spec.get("minReadySeconds", 0),
                "selector": {**selector, "matchLabels": labels},
                "template": template,
            },
        }
        set_controller_reference(deployment, replica_set)
        await self._cluster.client.create(replica_set)

    async def _patch_set(self, view: ReplicaSetView, patch: Manifest) -> None:
        entry = view.entry
        await self._cluster.patch(REPLICA_SET, entry.name, patch, namespace=entry.namespace)

    async def _show_revision(self, deployment: Manifest, new: ReplicaSetView) -> None:
        revision = new.entry.annotations.get(REVISION, "1")
        metadata = deployment["metadata"]
        if (metadata.get("annotations") or {}).get(REVISION) == revision:
            return
        patch = {"metadata": {"annotations": {REVISION: revision}}}
        name, namespace = metadata["name"], metadata["namespace"]
        # With the status, as upstream does: by itself it would count as a new generation.
        await self._cluster.patch(DEPLOYMENT, name, patch, "status", namespace=namespace)

    async def _prune(
        self, spec: Manifest, sets: list[ReplicaSetView], new: ReplicaSetView | None
    ) -> None:
        """Delete old, empty ReplicaSets beyond revisionHistoryLimit."""
        limit = spec.get("revisionHistoryLimit", 10)
        empty = [s for s in sets if s is not new and not s.wanted and not s.exists]
        empty.sort(key=lambda s: s.revision)
        for view in empty[: max(len(empty) - limit, 0)]:
            await self._cluster.delete(REPLICA_SET, view.entry)

    def _status(
        self, deployment: Manifest, sets: list[ReplicaSetView], new: ReplicaSetView | None
    ) -> Manifest:
        replicas = deployment["spec"].get("replicas", 1)
        total = sum(s.exists for s in sets)
        available = sum(s.available for s in sets)
        counts = {
            "observedGeneration": deployment["metadata"]["generation"],
            "replicas": total,
            "updatedReplicas": new.exists if new else 0,
            "readyReplicas": sum(s.ready for s in sets),
            "availableReplicas": available,
            "unavailableReplicas": max(replicas - available, 0),
        }
        complete = (
            new is not None
            and counts["updatedReplicas"] == replicas == total
            and available == replicas
        )
        return without_zeros(counts) | {
            "conditions": deployment_conditions(
                deployment,
                self._cluster.now(),
                available,
                complete,
                new.entry.name if new else None,
            )
        }

    def _deadline(self, spec: Manifest, status: Manifest) -> Result | None:
        """Come back when the progress deadline is over."""
        progressing = next(c for c in status["conditions"] if c["type"] == "Progressing")
        if progressing["reason"] not in ("ReplicaSetUpdated", "NewReplicaSetCreated"):
            return None
        seconds = spec.get("progressDeadlineSeconds", 600)
        over = parse_timestamp(progressing["lastUpdateTime"]) + timedelta(seconds=seconds)
        left = (over - self._cluster.now()).total_seconds()
        return Result(requeue_after=max(left, 0) + 1)


def deployment_conditions(
    deployment: Manifest, now: datetime, available: int, complete: bool, new: str | None
) -> list[Manifest]:
    """Progressing and Available with the deployment controller's reasons and messages."""
    name, spec = deployment["metadata"]["name"], deployment["spec"]
    status = deployment.get("status") or {}
    replicas = spec.get("replicas", 1)
    subject = f'ReplicaSet "{new}"' if new else f'Deployment "{name}"'
    if complete:
        progressing = condition(
            "Progressing", True, "NewReplicaSetAvailable", f"{subject} has successfully progressed."
        )
    elif spec.get("paused"):
        progressing = condition(
            "Progressing", "Unknown", "DeploymentPaused", "Deployment is paused"
        )
    elif _timed_out(status, spec, now, available):
        progressing = condition(
            "Progressing",
            False,
            "ProgressDeadlineExceeded",
            f"{subject} has timed out progressing.",
        )
    else:
        progressing = condition(
            "Progressing", True, "ReplicaSetUpdated", f"{subject} is progressing."
        )
    _, unavailable = limits(spec.get("strategy", {}), replicas)
    if spec.get("strategy", {}).get("type") == "Recreate":
        unavailable = 0
    enough = available >= replicas - unavailable
    availability = condition(
        "Available",
        enough,
        "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        f"Deployment {'has' if enough else 'does not have'} minimum availability.",
    )
    return conditions(status.get("conditions"), [availability, progressing], now, update_time=True)


def _timed_out(status: Manifest, spec: Manifest, now: datetime, available: int) -> bool:
    """Whether nothing has moved for progressDeadlineSeconds."""
    old = next((c for c in status.get("conditions", []) if c["type"] == "Progressing"), None)
    if old is None or status.get("availableReplicas", 0) != available:
        return False
    if old["reason"] == "ProgressDeadlineExceeded":
        return True
    if old["reason"] != "ReplicaSetUpdated":
        return False
    deadline = timedelta(seconds=spec.get("progressDeadlineSeconds", 600))
    return now >= parse_timestamp(old["lastUpdateTime"]) + deadline


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A ReplicaSet's size: asked for, existing and available Pods."""

    name: str
    wanted: int
    exists: int
    available: int


def limits(strategy: Mapping[str, Any], replicas: int) -> tuple[int, int]:
    """MaxSurge (rounded up) and maxUnavailable (rounded down), never both zero."""
    rolling = strategy.get("rollingUpdate") or {}
    surge = _share(rolling.get("maxSurge", "25%"), replicas, math.ceil)
    unavailable = _share(rolling.get("maxUnavailable", "25%"), replicas, math.floor)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, min(unavailable, replicas)


def _share(value: int | str, total: int, rounded: Callable[[float], int]) -> int:
    if isinstance(value, int):
        return value
    return int(rounded(int(value.rstrip("%")) * total / 100))


def plan(
    replicas: int, strategy: Mapping[str, Any], new: Scale, old: Sequence[Scale]
) -> dict[str, int]:
    """Return the sizes to set now, by name of ReplicaSet; empty when there is nothing to do.

    As the deployment controller: `Recreate` waits until no old Pod is left; `RollingUpdate`
    keeps within maxSurge and maxUnavailable, old Pods that are not available go first.
    """
    if strategy.get("type") == "Recreate":
        return _recreate(replicas, new, old)
    surge, unavailable = limits(strategy, replicas)
    old_wanted = sum(s.wanted for s in old)
    size = new.wanted
    if new.wanted > replicas:
        size = replicas
    elif new.wanted < replicas:
        room = replicas + surge - old_wanted - new.wanted
        size = min(replicas, new.wanted + max(room, 0))
    sizes = {} if size == new.wanted else {new.name: size}
    return sizes | _shrink(replicas - unavailable, new, old)


def _shrink(minimum: int, new: Scale, old: Sequence[Scale]) -> dict[str, int]:
    """Smaller sizes of old ReplicaSets, so that `minimum` Pods stay available."""
    sizes = {s.name: s.wanted for s in old}
    spare = sum(sizes.values()) + new.wanted - minimum - (new.wanted - new.available)
    for scale in old:
        dead = min(max(scale.wanted - scale.available, 0), max(spare, 0))
        sizes[scale.name] -= dead
        spare -= dead
    spare = new.available + sum(s.available for s in old) - minimum
    for scale in old:
        cut = min(sizes[scale.name], max(spare, 0))
        sizes[scale.name] -= cut
        spare -= cut
    return {s.name: sizes[s.name] for s in old if sizes[s.name] != s.wanted}


def _recreate(replicas: int, new: Scale, old: Sequence[Scale]) -> dict[str, int]:
    sizes = {scale.name: 0 for scale in old if scale.wanted}
    if sizes or any(scale.exists for scale in old):
        return sizes
    return {} if new.wanted == replicas else {new.name: replicas}
