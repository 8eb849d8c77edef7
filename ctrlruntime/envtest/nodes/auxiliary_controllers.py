"""What workloads find around them: claims, load balancers, Ingresses, autoscalers, budgets."""

from __future__ import annotations

import math
import zlib

from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.selectors import label_matcher
from ctrlruntime.controller.reconcile import Result
from ctrlruntime.envtest.nodes.cluster import OfCluster
from ctrlruntime.envtest.nodes.kinds import (
    AUTOSCALER,
    BUDGET,
    CLAIM,
    DEPLOYMENT,
    INGRESS,
    POD,
    SERVICE,
    STATEFUL_SET,
    Manifest,
)
from ctrlruntime.envtest.nodes.podshape import PodView
from ctrlruntime.envtest.nodes.status import condition, conditions
from ctrlruntime.queue import Request

CLAIM_PROTECTION = "kubernetes.io/pvc-protection"


def address(uid: str) -> str:
    """Return a load balancer's address in a range for documentation (198.51.100.0/24, RFC 5737)."""
    return f"198.51.100.{1 + zlib.crc32(uid.encode()) % 254}"


class ClaimReconciler(OfCluster):
    """Claims are Bound as soon as they are seen, and grow when asked to; there are no volumes.

    A claim on its way out is let go at once: nothing mounts it, so its protection has no use.
    """

    async def reconcile(self, request: Request) -> Result | None:
        claim = self._cluster.live(CLAIM, request)
        if claim is None:
            await self._let_go(request)
            return None
        spec, status = claim["spec"], claim.get("status") or {}
        requested = (spec.get("resources") or {}).get("requests") or {}
        desired = {**status, "phase": "Bound", "accessModes": spec.get("accessModes", [])}
        if "storage" in requested:
            desired["capacity"] = {"storage": requested["storage"]}
        await self._cluster.set_status(CLAIM, claim, desired)
        return None

    async def _let_go(self, request: Request) -> None:
        entry = self._cluster.cache.entry(CLAIM, request.name, namespace=request.namespace)
        if entry is None or CLAIM_PROTECTION not in entry.finalizers:
            return
        kept = [name for name in entry.finalizers if name != CLAIM_PROTECTION]
        patch = {"metadata": {"uid": entry.uid, "finalizers": kept or None}}
        await self._cluster.patch(CLAIM, entry.name, patch, namespace=entry.namespace)


class ServiceReconciler(OfCluster):
    """Services of type LoadBalancer get an address, others lose it."""

    async def reconcile(self, request: Request) -> Result | None:
        service = self._cluster.live(SERVICE, request)
        if service is None:
            return None
        status = service.get("status") or {}
        ingress = (status.get("loadBalancer") or {}).get("ingress")
        if service["spec"].get("type") == "LoadBalancer":
            wanted = [{"ip": address(service["metadata"]["uid"]), "ipMode": "VIP"}]
        elif ingress:
            wanted = []
        else:
            return None
        balancer = {"ingress": wanted} if wanted else {"ingress": None}
        if (ingress or []) != wanted:
            metadata = service["metadata"]
            patch = {"status": {"loadBalancer": balancer}}
            await self._cluster.patch(
                SERVICE, metadata["name"], patch, "status", namespace=metadata["namespace"]
            )
        return None


class IngressReconciler(OfCluster):
    """Every Ingress gets an address."""

    async def reconcile(self, request: Request) -> Result | None:
        ingress = self._cluster.live(INGRESS, request)
        if ingress is None:
            return None
        entry: Manifest = {"ip": address(ingress["metadata"]["uid"])}
        await self._cluster.set_status(INGRESS, ingress, {"loadBalancer": {"ingress": [entry]}})
        return None


class AutoscalerReconciler(OfCluster):
    """Autoscalers report their target's size; there are no metrics to scale by."""

    async def reconcile(self, request: Request) -> Result | None:
        autoscaler = self._cluster.live(AUTOSCALER, request)
        if autoscaler is None:
            return None
        target = self._target(autoscaler)
        status = autoscaler.get("status") or {}
        if target is None:
            able = condition("AbleToScale", False, "FailedGetScale", "the target was not found")
        else:
            able = condition(
                "AbleToScale", True, "SucceededGetScale", "the target's scale was read"
            )
        desired: Manifest = {
            "observedGeneration": autoscaler["metadata"].get("generation", 1),
            "desiredReplicas": _replicas(target),
            "currentReplicas": _replicas(target),
            "conditions": conditions(status.get("conditions"), [able], self._cluster.now()),
        }
        await self._cluster.set_status(AUTOSCALER, autoscaler, desired)
        return None

    def _target(self, autoscaler: Manifest) -> Entry | None:
        reference = autoscaler["spec"]["scaleTargetRef"]
        kind = {"Deployment": DEPLOYMENT, "StatefulSet": STATEFUL_SET}.get(reference["kind"])
        if kind is None:
            return None
        namespace = autoscaler["metadata"]["namespace"]
        return self._cluster.cache.entry(kind, reference["name"], namespace=namespace)


def _replicas(target: Entry | None) -> int:
    return 0 if target is None else int((target.field("spec") or {}).get("replicas", 1))


class BudgetReconciler(OfCluster):
    """Disruption budgets count the ready Pods they select."""

    async def reconcile(self, request: Request) -> Result | None:
        budget = self._cluster.live(BUDGET, request)
        if budget is None:
            return None
        spec = budget["spec"]
        matches = label_matcher(selector_text(spec.get("selector") or {}))
        entries = self._cluster.cache.entries(POD, request.namespace)
        pods = [PodView(e) for e in entries if matches(e.labels)]
        expected = sum(not pod.finished for pod in pods)
        healthy = sum(pod.ready for pod in pods)
        desired_healthy = needed_healthy(spec, expected)
        allowed = max(healthy - desired_healthy, 0)
        able = condition(
            "DisruptionAllowed", allowed > 0, "SufficientPods" if allowed else "InsufficientPods"
        )
        able["observedGeneration"] = budget["metadata"].get("generation", 1)
        before = (budget.get("status") or {}).get("conditions")
        status = {
            "observedGeneration": budget["metadata"].get("generation", 1),
            "currentHealthy": healthy,
            "desiredHealthy": desired_healthy,
            "expectedPods": expected,
            "disruptionsAllowed": allowed,
            "conditions": [
                {"message": "", **c} for c in conditions(before, [able], self._cluster.now())
            ],
        }
        await self._cluster.set_status(BUDGET, budget, status)
        return None


def needed_healthy(spec: Manifest, expected: int) -> int:
    """How many Pods have to stay, of minAvailable or maxUnavailable (percentages round up)."""
    if spec.get("minAvailable") is not None:
        return _share(spec["minAvailable"], expected)
    if spec.get("maxUnavailable") is not None:
        return max(expected - _share(spec["maxUnavailable"], expected), 0)
    return min(expected, 1)


def _share(value: int | str, total: int) -> int:
    if isinstance(value, int):
        return value
    return math.ceil(int(value.rstrip("%")) * total / 100)


def selector_text(selector: Manifest) -> str:
    """Return a LabelSelector as the text of a query."""
    parts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for rule in selector.get("matchExpressions") or []:
        key, operator = rule["key"], rule["operator"]
        values = ",".join(rule.get("values") or [])
        parts.append(
            {
                "In": f"{key} in ({values})",
                "NotIn": f"{key} notin ({values})",
                "Exists": key,
                "DoesNotExist": f"!{key}",
            }[operator]
        )
    return ",".join(parts)
