"""Whether an object is ready, by the rules of its kind.

Rules look at group and kind. They are those of `kubectl rollout status` and kstatus where these
exist. Of every kind, a status of another generation shows nothing, and what a controller reports as
stalled or under way is not ready. A claim whose storage class binds on first use stays Pending until a pod uses it; that mode is
not part of the claim, so it is passed in.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.api.scalars import Quantity
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
    status = _part(obj, "status")
    if _is_of_another_generation(obj, status, always=kind.group == "apps" and kind in _RULES):
        return not_ready("its controller has not seen the last change yet")
    if kind == _CLAIM and binds_on_first_use and _waits_for_pod(status):
        return READY
    if _is_true(status, "Stalled"):
        return failed(f"its controller reports it as stalled{_why(status, 'Stalled')}")
    if _is_true(status, "Reconciling"):
        return not_ready(f"its controller works on it{_why(status, 'Reconciling')}")
    return _RULES.get(kind, _custom)(obj)


def _deployment(obj: Object) -> Readiness:
    status = _part(obj, "status")
    progressing = _condition(status, "Progressing")
    if progressing and progressing.get("reason") == "ProgressDeadlineExceeded":
        return failed("its rollout exceeded its progress deadline")
    wanted = _replicas(obj)
    if _count(status, "updatedReplicas") < wanted:
        return _short("updated", status, wanted)
    if _count(status, "replicas") > _count(status, "updatedReplicas"):
        return not_ready("old replicas are still running")
    return _replicated(obj)


def _replicated(obj: Object, *, available: bool = True) -> Readiness:
    """As many replicas as wanted, none more, all of them ready and available."""
    status, wanted = _part(obj, "status"), _replicas(obj)
    for word in ("ready", "available") if available else ("ready",):
        if _count(status, f"{word}Replicas") < wanted:
            return _short(word, status, wanted)
    if _count(status, "replicas") > wanted:
        return not_ready(f"{_count(status, 'replicas')} replicas still run, {wanted} are wanted")
    return READY


def _stateful_set(obj: Object) -> Readiness:
    status, spec, wanted = _part(obj, "status"), _part(obj, "spec"), _replicas(obj)
    found = _replicated(obj, available=bool(spec.get("minReadySeconds")))
    if not found.ready:
        return found
    strategy = _part(spec, "updateStrategy")
    if strategy.get("type") == "OnDelete":
        return READY
    partition = int(_part(strategy, "rollingUpdate").get("partition") or 0)
    to_update = max(wanted - partition, 0)
    same = status.get("currentRevision") == status.get("updateRevision")
    if not same and _count(status, "updatedReplicas") < to_update:
        return _short("updated", status, to_update)
    return READY


def _daemon_set(obj: Object) -> Readiness:
    status = _part(obj, "status")
    wanted = _count(status, "desiredNumberScheduled")
    on_delete = _part(_part(obj, "spec"), "updateStrategy").get("type") == "OnDelete"
    fields = {"updatedNumberScheduled": "updated", "numberReady": "ready"}
    fields |= {"numberAvailable": "available"}
    for field, word in fields.items():
        if field == "updatedNumberScheduled" and on_delete:
            continue
        if _count(status, field) < wanted:
            return _short(word, status, wanted, field)
    return READY


def _job(obj: Object) -> Readiness:
    status = _part(obj, "status")
    if _is_true(status, "Complete") or _is_true(status, "SuccessCriteriaMet"):
        return READY
    found = _condition(status, "Failed")
    if found and found.get("status") == "True":
        return failed(f"the job failed{_why(status, 'Failed') or ' (no reason given)'}")
    if _part(obj, "spec").get("suspend"):
        return not_ready("the job is suspended")
    return not_ready(f"the job has not completed yet{_why(status, 'FailureTarget')}")


def _pod(obj: Object) -> Readiness:
    status = _part(obj, "status")
    phase = status.get("phase") or "Running"
    if phase == "Failed":
        return failed("the pod failed")
    if phase == "Succeeded":
        return READY
    if phase not in {"Pending", "Running"}:
        return not_ready("nothing is known of the pod: its node does not answer")
    for name in ("PodResizePending", "PodResizeInProgress"):
        if _is_true(status, name):
            return not_ready(f"the pod has not the resources that it requests{_why(status, name)}")
    if phase == "Running" and _is_true(status, "Ready"):
        return READY
    containers = status.get("containerStatuses") or ()
    waits = (_part(_part(each, "state"), "waiting") for each in containers)
    reason = next((each["reason"] for each in waits if each.get("reason")), "")
    why = _why(status, "PodScheduled") or (f" ({reason})" if reason else _why(status, "Ready"))
    return not_ready(f"the pod is not ready{why}")


def _service(obj: Object) -> Readiness:
    if _part(obj, "spec").get("type") != "LoadBalancer":
        return READY
    status = _part(obj, "status")
    if _is_true(status, _PORTS):
        return not_ready(f"the load balancer does not serve every port{_why(status, _PORTS)}")
    return READY if _balanced(obj) else not_ready("the load balancer has no address yet")


def _ingress(obj: Object) -> Readiness:
    spec = _part(obj, "spec")
    if spec.get("rules") or spec.get("defaultBackend") or _balanced(obj):
        return READY
    return not_ready("the ingress has neither rules nor an address")


def _claim(obj: Object) -> Readiness:
    status = _part(obj, "status")
    phase = status.get("phase")
    if phase == "Bound":
        return _sized(obj, status)
    return failed("its volume is lost") if phase == "Lost" else not_ready("the claim is not bound")


def _sized(obj: Object, status: Mapping[str, Any]) -> Readiness:
    """Return whether a bound claim has as much room as it requests; the server refuses to shrink one."""
    requested = _part(_part(_part(obj, "spec"), "resources"), "requests").get("storage")
    has = _part(status, "capacity").get("storage")
    if requested is None or has is None or (Quantity(has).value >= Quantity(requested).value):
        return READY
    why = next((each for each in _RESIZES if _is_true(status, each)), "")
    return not_ready(f"the claim is smaller than it requests{f' ({why})' if why else ''}")


def _volume(obj: Object) -> Readiness:
    phase = _part(obj, "status").get("phase")
    if phase in {"Available", "Bound"}:
        return READY
    if phase == "Failed":
        return failed("the volume failed to be reclaimed")
    return not_ready("the volume is neither available nor bound")


def _snapshot(obj: Object) -> Readiness:
    status = _part(obj, "status")
    if status.get("readyToUse") is True:
        return READY
    return not_ready(
        f"the copy is not ready to use{' (it has an error)' if status.get('error') else ''}"
    )


def _namespace(obj: Object) -> Readiness:
    active = _part(obj, "status").get("phase") == "Active"
    return READY if active else not_ready("the namespace is not active")


def _autoscaler(obj: Object) -> Readiness:
    status = _part(obj, "status")
    if not _is_true(status, "AbleToScale"):
        return not_ready(f"the autoscaler is not able to scale{_why(status, 'AbleToScale')}")
    active = _condition(status, "ScalingActive") or {}
    if active.get("status") == "False" and active.get("reason") != "ScalingDisabled":
        return not_ready(f"the autoscaler has nothing to scale by{_why(status, 'ScalingActive')}")
    return READY


def _definition(obj: Object) -> Readiness:
    status = _part(obj, "status")
    if (_condition(status, "NamesAccepted") or {}).get("status") == "False":
        return failed(f"the names of the definition are taken{_why(status, 'NamesAccepted')}")
    if _is_true(status, "Established"):
        return READY
    return not_ready(f"the definition is not established{_why(status, 'Established')}")


def _custom(obj: Object) -> Readiness:
    """Any other kind: Ready, else Available, is True, if it has one."""
    status = _part(obj, "status")
    for name in ("Ready", "Available"):
        found = _condition(status, name)
        if found is None:
            continue
        if _is_of_another_generation(obj, found):
            return not_ready(f"its condition {name} is not of its last change")
        if found.get("status") == "True":
            return READY
        word = found.get("status") or "Unknown"
        return not_ready(f"its condition {name} is {word}{_why(status, name)}")
    phase = status.get("phase")
    return failed(f"its phase is {phase}") if phase in {"Failed", "Error"} else READY


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
    GroupKind("apps", "ReplicaSet"): _replicated,
    GroupKind("batch", "Job"): _job,
    GroupKind("", "Pod"): _pod,
    GroupKind("", "Service"): _service,
    GroupKind("networking.k8s.io", "Ingress"): _ingress,
    _CLAIM: _claim,
    GroupKind("", "PersistentVolume"): _volume,
    GroupKind("", "ReplicationController"): _replicated,
    GroupKind("snapshot.storage.k8s.io", "VolumeSnapshot"): _snapshot,
    GroupKind("snapshot.storage.k8s.io", "VolumeSnapshotContent"): _snapshot,
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


def _is_of_another_generation(
    obj: Object, seen: Mapping[str, Any], *, always: bool = False
) -> bool:
    """Return whether a status or condition does not show the present spec. `always`: its kind reports that."""
    generation = _part(obj, "metadata").get("generation")
    if not generation or not (always or "observedGeneration" in seen):
        return False
    # As text it is what protobuf makes of 64 bits, in the statuses of Istio for one.
    return str(seen.get("observedGeneration") or 0) != str(generation)


def _waits_for_pod(status: Mapping[str, Any]) -> bool:
    """Return whether it takes a Pod for a claim to be bound, or to get its size."""
    return status.get("phase") == "Pending" or (
        status.get("phase") == "Bound" and _is_true(status, "FileSystemResizePending")
    )


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


def _short(word: str, status: Mapping[str, Any], wanted: int, field: str = "") -> Readiness:
    count = _count(status, field or f"{word}Replicas")
    why = _why(status, "ReplicaFailure", "Progressing")
    return not_ready(f"{count} of {wanted} replicas are {word}{why}")


def _why(status: Mapping[str, Any], *names: str) -> str:
    """Return the reason of the first of some conditions that is not as it should be, in brackets: its words only.

    Of its message, which may quote values, only what a server forbids: `exceeded quota`.
    """
    for name in names:
        found = _condition(status, name) or {}
        bad = found.get("status") == "True" if name in _UNWANTED else found.get("status") != "True"
        reason = found.get("reason")
        if not bad or not isinstance(reason, str) or not _REASON.fullmatch(reason):
            continue
        forbidden = _FORBIDDEN.search(str(found.get("message") or ""))
        return f" ({reason}{f': {forbidden[1]}' if forbidden else ''})"
    return ""


_PORTS: Final = "LoadBalancerPortsError"
_UNWANTED: Final = frozenset(
    {
        "ReplicaFailure",
        "Failed",
        "FailureTarget",
        "Stalled",
        "Reconciling",
        "PodResizePending",
        "PodResizeInProgress",
        _PORTS,
    }
)
_RESIZES: Final = ("FileSystemResizePending", "Resizing")
_REASON: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")
_FORBIDDEN: Final = re.compile(r'is forbidden: ([A-Za-z ]{1,40}?)(?=:| ")')
