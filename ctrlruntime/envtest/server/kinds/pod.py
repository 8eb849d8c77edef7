"""Pods."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.schema.quantity import QuantityError, value_of
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import FieldError, bad_value, forbidden_field
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.kinds.immutable import get_path, without
from ctrlruntime.envtest.server.kinds.pod_template import POD_SPEC, POD_SPEC_RULES
from ctrlruntime.envtest.server.printers.pods import POD_PRINTER

_Object = dict[str, Any]


def _requests(pod: _Object) -> None:
    """Request default to limits; with the host's network, ports are the host's."""
    spec = pod.get("spec") or {}
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        for name, amount in (resources.get("limits") or {}).items():
            resources.setdefault("requests", {}).setdefault(name, amount)
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                port.setdefault("hostPort", port.get("containerPort"))


_POD: Final = Defaults({"spec": {}}, {"spec": POD_SPEC, "metadata": Defaults()}, (_requests,))
_POD_ONLY: Final = Defaults({"enableServiceLinks": True})
_TOLERATIONS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def _default(pod: _Object) -> None:
    _POD.fill(pod)
    _POD_ONLY.fill(pod["spec"])
    _agree_on_addresses(pod.get("status") or {})


def _agree_on_addresses(status: _Object) -> None:
    """Make the single address and the list agree: the list follows where the two disagree."""
    address = status.get("podIP")
    listed = status.get("podIPs") or [{}]
    if address and listed[0].get("ip") != address:
        status["podIPs"] = [{"ip": address}]
    elif not address and listed[0].get("ip"):
        status["podIP"] = listed[0]["ip"]


def _admit(pod: _Object) -> None:
    """Add what the default admission plugins add to a new pod."""
    spec = pod["spec"]
    spec.setdefault("priority", 0)
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    tolerations = spec.setdefault("tolerations", [])
    for key in _TOLERATIONS:
        known = any(
            item.get("key") in {key, None, ""} and item.get("effect") in {"NoExecute", None, ""}
            for item in tolerations
        )
        if not known:
            toleration = {"key": key, "operator": "Exists", "effect": "NoExecute"}
            tolerations.append({**toleration, "tolerationSeconds": 300})


def _quality_of_service(spec: _Object) -> str:
    """Guaranteed, Burstable or BestEffort, from the containers' cpu and memory."""
    guaranteed, anything = True, False
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in ("cpu", "memory"):
            limit, request = _amount(limits.get(name)), _amount(requests.get(name))
            anything = anything or bool(limit) or bool(request)
            guaranteed = guaranteed and bool(limit) and limit == request
    if not anything:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _amount(text: object) -> Decimal | None:
    try:
        return value_of(text) if text is not None else None
    except QuantityError:
        return None


def _create(obj: Manifest) -> None:
    obj["status"] = {"phase": "Pending", "qosClass": _quality_of_service(obj["spec"])}
    if obj["spec"].get("schedulingGates"):
        obj["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": obj["metadata"]["creationTimestamp"],
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]


def _pod_update(new: _Object, old: _Object) -> Iterator[FieldError]:
    """Yield what of the containers or of a later deadline is wrong hides the rest."""
    if containers := list(_pod_containers(new, old)):
        yield from containers
        return
    deadline = list(_pod_deadline(new, old))
    yield from deadline
    if not deadline or new["spec"].get("activeDeadlineSeconds") is None:
        yield from _pod(new, old)


def _pod_containers(new: _Object, old: _Object) -> Iterator[FieldError]:
    for field in ("containers", "initContainers"):
        if len(new["spec"].get(field) or ()) != len(old["spec"].get(field) or ()):
            yield forbidden_field(f"spec.{field}", "pod updates may not add or remove containers")
            return


def _pod_deadline(new: _Object, old: _Object) -> Iterator[FieldError]:
    """Check a deadline: it may be set, and be made shorter."""
    path = "spec.activeDeadlineSeconds"
    before, after = get_path(old, path), get_path(new, path)
    if before is None:
        return
    if after is None:
        yield bad_value(path, None, "must not update from a positive integer to nil value")
    elif after > before:
        yield bad_value(path, after, "must be less than or equal to previous value")


def _pod(new: _Object, old: _Object) -> Iterator[FieldError]:
    if _pod_frozen(new["spec"]) != _pod_frozen(old["spec"]):
        yield forbidden_field(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` "
            "(only additions to existing tolerations),`spec.terminationGracePeriodSeconds` "
            "(allow it to be set to 1 if it was previously negative)",
        )


def _pod_frozen(spec: _Object) -> _Object:
    frozen = without(spec, {"activeDeadlineSeconds", "tolerations", "schedulingGates"})
    for field in ("containers", "initContainers"):
        if spec.get(field):
            frozen[field] = [without(item, {"image"}) for item in spec[field]]
    frozen.pop("ephemeralContainers", None)
    if spec.get("schedulingGates"):
        frozen.pop("nodeSelector", None)
        frozen.pop("affinity", None)
    return frozen


POD: Final = builtin_kind(
    "",
    "Pod",
    "pods",
    "po",
    categories=("all",),
    generation=True,
    subresources=("binding", "ephemeralcontainers", "eviction", "resize", "status"),
    more_fields=(
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    defaults=Defaults(rules=(_default,)),
    spec_rules=POD_SPEC_RULES,
    updates=(_pod_update,),
    printer=POD_PRINTER,
    admit=_admit,
    before_create=_create,
)
