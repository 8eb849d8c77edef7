"""Whether an object is ready, by the rules of its kind.

Rules look at group and kind. They are those of `kubectl rollout status` and kstatus where these
exist. A claim whose storage class binds on first use stays Pending until a pod uses it; that mode is
not part of the claim, so it is passed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.fast_dataclass import fast_dataclass


class Phase(StrEnum):
    """The phase of an object."""

    READY = "Ready"
    NOT_READY = "NotReady"
    FAILED = "Failed"


@fast_dataclass(frozen=True, slots=True)
class Readiness:
    """A phase, and for all but Ready a reason in words without values of the object."""

    phase: Phase
    reason: str = ""

    @property
    def ready(self) -> bool:
        return self.phase is Phase.READY


READY = Readiness(Phase.READY)

Object = Mapping[str, Any]
Rule = Callable[[Object], Readiness]


def not_ready(reason: str) -> Readiness:
    """Not ready yet; it may become so."""
    return Readiness(Phase.NOT_READY, reason)


def failed(reason: str) -> Readiness:
    """Will not become ready without a change."""
    return Readiness(Phase.FAILED, reason)


def assess(obj: Object, *, binds_on_first_use: bool = False) -> Readiness:
    """Return the readiness of a live object. `binds_on_first_use`: the claim's storage class waits for a pod."""
    if _part(obj, "metadata").get("deletionTimestamp"):
        return not_ready("it is being deleted")
    group = str(obj.get("apiVersion", "")).rpartition("/")[0]
    kind = GroupKind(group, str(obj.get("kind", "")))
    if kind in EXISTENCE:
        return READY
    if kind == _CLAIM and binds_on_first_use and _part(obj, "status").get("phase") == "Pending":
        return READY
    rule = _RULES.get(kind)
    return rule(obj) if rule is not None else _custom(obj)


def _deployment(obj: Object) -> Readiness:
    status = _part(obj, "status")
    if _stale(obj, status):
        return not_ready("its controller has not seen the last change yet")
    progressing = _condition(status, "Progressing")
    if progressing and progressing.get("reason") == "ProgressDeadlineExceeded":
        return failed("its rollout exceeded its progress deadline")
    wanted = _replicas(obj)
    if _count(status, "updatedReplicas") < wanted:
        return _short("updated", _count(status, "updatedReplicas"), wanted)
    if _count(status, "replicas") > _count(status, "updatedReplicas"):
        return not_ready("old replicas are still running")
    for field in ("readyReplicas", "availableReplicas"):
        if _count(status, field) < wanted:
            return _short(field.removesuffix("Replicas"), _count(status, field), wanted)
    return READY


def _stateful_set(obj: Object) -> Readiness:
    status = _part(obj, "status")
    if _stale(obj, status):
        return not_ready("its controller has not seen the last change yet")
    wanted = _replicas(obj)
    if _count(status, "readyReplicas") < wanted:
        return _short("ready", _count(status, "readyReplicas"), wanted)
    strategy = _part(_part(obj, "spec"), "updateStrategy")
    if strategy.get("type") == "OnDelete":
        return READY
    partition = int(_part(strategy, "rollingUpdate").get("partition") or 0)
    to_update = max(wanted - partition, 0)
    same = status.get("currentRevision") == status.get("updateRevision")
    if not same and _count(status, "updatedReplicas") < to_update:
        return _short("updated", _count(status, "updatedReplicas"), to_update)
    return READY


def _daemon_set(obj: Object) -> Readiness:
    status = _part(obj, "status")
    if _stale(obj, status):
        return not_ready("its controller has not seen the last change yet")
    wanted = _count(status, "desiredNumberScheduled")
    on_delete = _part(_part(obj, "spec"), "updateStrategy").get("type") == "OnDelete"
    fields = {"updatedNumberScheduled": "updated", "numberReady": "ready"}
    fields |= {"numberAvailable": "available"}
    for field, word in fields.items():
        if field == "updatedNumberScheduled" and on_delete:
            continue
        if _count(status, field) < wanted:
            return _short(word, _count(status, field), wanted)
    return READY


def _job(obj: Object) -> Readiness:
    status = _part(obj, "status")
    if _is_true(status, "Complete") or _is_true(status, "SuccessCriteriaMet"):
        return READY
    found = _condition(status, "Failed")
    if found and found.get("status") == "True":
        return failed(f"the job failed ({found.get('reason') or 'no reason given'})")
    if _part(obj, "spec").get("suspend"):
        return not_ready("the job is suspended")
    return not_ready("the job has not completed yet")


def _pod(obj: Object) -> Readiness:
    status = _part(obj, "status")
    if status.get("phase") == "Failed":
        return failed("the pod failed")
    if status.get("phase") == "Succeeded" or _is_true(status, "Ready"):
        return READY
    return not_ready("the pod is not ready")


def _service(obj: Object) -> Readiness:
    if _part(obj, "spec").get("type") != "LoadBalancer" or _balanced(obj):
        return READY
    return not_ready("the load balancer has no address yet")


def _ingress(obj: Object) -> Readiness:
    spec = _part(obj, "spec")
    if spec.get("rules") or spec.get("defaultBackend") or _balanced(obj):
        return READY
    return not_ready("the ingress has neither rules nor an address")


def _claim(obj: Object) -> Readiness:
    phase = _part(obj, "status").get("phase")
    if phase == "Bound":
        return READY
    return failed("its volume is lost") if phase == "Lost" else not_ready("the claim is not bound")


def _namespace(obj: Object) -> Readiness:
    active = _part(obj, "status").get("phase") == "Active"
    return READY if active else not_ready("the namespace is not active")


def _autoscaler(obj: Object) -> Readiness:
    able = _is_true(_part(obj, "status"), "AbleToScale")
    return READY if able else not_ready("the autoscaler is not able to scale")


def _definition(obj: Object) -> Readiness:
    established = _is_true(_part(obj, "status"), "Established")
    return READY if established else not_ready("the definition is not established")


def _custom(obj: Object) -> Readiness:
    """Any other kind: the last generation observed, if it has one, and Ready, else Available, True."""
    status = _part(obj, "status")
    if "observedGeneration" in status and _stale(obj, status):
        return not_ready("its controller has not seen the last change yet")
    if _is_true(status, "Stalled"):
        return failed("its controller reports it as stalled")
    for name in ("Ready", "Available"):
        found = _condition(status, name)
        if found is None:
            continue
        if found.get("status") == "True":
            return READY
        return not_ready(f"its condition {name} is {found.get('status') or 'Unknown'}")
    return READY


_CLAIM = GroupKind("", "PersistentVolumeClaim")

EXISTENCE = frozenset(
    {
        GroupKind("", "ConfigMap"),
        GroupKind("", "Secret"),
        GroupKind("", "ServiceAccount"),
        GroupKind("batch", "CronJob"),
        GroupKind("policy", "PodDisruptionBudget"),
        GroupKind("networking.k8s.io", "NetworkPolicy"),
        GroupKind("rbac.authorization.k8s.io", "Role"),
        GroupKind("rbac.authorization.k8s.io", "RoleBinding"),
        GroupKind("rbac.authorization.k8s.io", "ClusterRole"),
        GroupKind("rbac.authorization.k8s.io", "ClusterRoleBinding"),
    }
)
"""Kinds that are ready as soon as they exist."""

_RULES: Mapping[GroupKind, Rule] = {
    GroupKind("apps", "Deployment"): _deployment,
    GroupKind("apps", "StatefulSet"): _stateful_set,
    GroupKind("apps", "DaemonSet"): _daemon_set,
    GroupKind("batch", "Job"): _job,
    GroupKind("", "Pod"): _pod,
    GroupKind("", "Service"): _service,
    GroupKind("networking.k8s.io", "Ingress"): _ingress,
    _CLAIM: _claim,
    GroupKind("", "Namespace"): _namespace,
    GroupKind("autoscaling", "HorizontalPodAutoscaler"): _autoscaler,
    GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
}


def _part(obj: Object, key: str) -> Mapping[str, Any]:
    value = obj.get(key)
    return value if isinstance(value, Mapping) else {}


def _count(status: Mapping[str, Any], field: str) -> int:
    value = status.get(field)
    return value if isinstance(value, int) else 0


def _replicas(obj: Object) -> int:
    wanted = _part(obj, "spec").get("replicas")
    return wanted if isinstance(wanted, int) else 1


def _stale(obj: Object, status: Mapping[str, Any]) -> bool:
    generation = _part(obj, "metadata").get("generation")
    return isinstance(generation, int) and _count(status, "observedGeneration") < generation


def _condition(status: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    found = status.get("conditions")
    if not isinstance(found, list):
        return None
    return next((c for c in found if isinstance(c, Mapping) and c.get("type") == name), None)


def _is_true(status: Mapping[str, Any], name: str) -> bool:
    found = _condition(status, name)
    return found is not None and found.get("status") == "True"


def _balanced(obj: Object) -> bool:
    return bool(_part(_part(obj, "status"), "loadBalancer").get("ingress"))


def _short(word: str, count: int, wanted: int) -> Readiness:
    return not_ready(f"{count} of {wanted} replicas are {word}")
