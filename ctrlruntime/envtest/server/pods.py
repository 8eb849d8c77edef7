"""Defaults of pods and pod templates."""

from __future__ import annotations

from typing import Any, Final

from ctrlruntime.envtest.schema.quantity import QuantityError, value_of
from ctrlruntime.envtest.server.defaulting import Defaults

_Object = dict[str, Any]
_SOURCES: Final = frozenset({"name"})


def _pull_policy(container: _Object) -> None:
    if container.get("imagePullPolicy"):
        return
    image = str(container.get("image") or "")
    tag = image.rpartition("/")[2].partition("@")[0].partition(":")[2]
    latest = (not tag and "@" not in image) or tag == "latest"
    container["imagePullPolicy"] = "Always" if latest else "IfNotPresent"


def _volume_source(volume: _Object) -> None:
    if not set(volume) - _SOURCES:
        volume["emptyDir"] = {}


def _host_path(path: _Object) -> None:
    path.setdefault("type", "")


def _service_account(spec: _Object) -> None:
    """Set the old name of the field as the new one."""
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


_HTTP_GET: Final = Defaults({"path": "/", "scheme": "HTTP"})
_PROBE: Final = Defaults(
    {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
    {"httpGet": _HTTP_GET, "grpc": Defaults({"service": ""})},
)
_HANDLER: Final = Defaults(within={"httpGet": _HTTP_GET})
_FIELD_REF: Final = Defaults({"apiVersion": "v1"})
CONTAINER: Final = Defaults(
    {
        "resources": {},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    },
    {
        "ports": Defaults({"protocol": "TCP"}),
        "env": Defaults(within={"valueFrom": Defaults(within={"fieldRef": _FIELD_REF})}),
        "livenessProbe": _PROBE,
        "readinessProbe": _PROBE,
        "startupProbe": _PROBE,
        "lifecycle": Defaults(within={"postStart": _HANDLER, "preStop": _HANDLER}),
    },
    (_pull_policy,),
)
_MODE: Final = Defaults({"defaultMode": 0o644})
_DOWNWARD: Final = Defaults(within={"items": Defaults(within={"fieldRef": _FIELD_REF})})
_CLAIM_SPEC: Final = Defaults({"volumeMode": "Filesystem"})
_VOLUME: Final = Defaults(
    within={
        "secret": _MODE,
        "configMap": _MODE,
        "downwardAPI": Defaults({"defaultMode": 0o644}, _DOWNWARD.within),
        "projected": Defaults(
            {"defaultMode": 0o644},
            {
                "sources": Defaults(
                    within={
                        "serviceAccountToken": Defaults({"expirationSeconds": 3600}),
                        "downwardAPI": _DOWNWARD,
                    }
                )
            },
        ),
        "hostPath": Defaults(rules=(_host_path,)),
        "iscsi": Defaults({"iscsiInterface": "default"}),
        "rbd": Defaults({"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}),
        "azureDisk": Defaults({"cachingMode": "ReadWrite", "fsType": "ext4", "readOnly": False}),
        "ephemeral": Defaults(
            within={"volumeClaimTemplate": Defaults(within={"spec": _CLAIM_SPEC})}
        ),
    },
    rules=(_volume_source,),
)
POD_SPEC: Final = Defaults(
    {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    },
    {
        "containers": CONTAINER,
        "initContainers": CONTAINER,
        "ephemeralContainers": CONTAINER,
        "volumes": _VOLUME,
    },
    (_service_account,),
)
TEMPLATE: Final = Defaults({"spec": {}}, {"spec": POD_SPEC})


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


POD: Final = Defaults({"spec": {}}, {"spec": POD_SPEC, "metadata": Defaults()}, (_requests,))
_POD_ONLY: Final = Defaults({"enableServiceLinks": True})
_TOLERATIONS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


def default_pod(pod: _Object) -> None:
    POD.fill(pod)
    _POD_ONLY.fill(pod["spec"])
    _addresses(pod.get("status") or {})


def _addresses(status: _Object) -> None:
    """Make the list of addresses agree: it follows the single address where the two disagree."""
    address = status.get("podIP")
    listed = status.get("podIPs") or [{}]
    if address and listed[0].get("ip") != address:
        status["podIPs"] = [{"ip": address}]


def admit_pod(pod: _Object) -> None:
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


def quality_of_service(spec: _Object) -> str:
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


def _amount(text: Any) -> Any:
    try:
        return value_of(text) if text is not None else None
    except QuantityError:
        return None
