"""Nodes."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.printers.column import NONE, UNKNOWN, Cells, age, items, part

_NODE_INFO: Final = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


def _create(obj: Manifest) -> None:
    status = obj.setdefault("status", {})
    status.setdefault("daemonEndpoints", {"kubeletEndpoint": {"Port": 0}})
    info = status.setdefault("nodeInfo", {})
    for name in _NODE_INFO:
        info.setdefault(name, "")


def _not_ready(obj: Manifest) -> None:
    """Taint a new node: it takes no pods until it is marked ready."""
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    taints = obj["spec"].setdefault("taints", [])
    if taint not in taints:
        taints.append(taint)


_ROLE: Final = "node-role.kubernetes.io/"


def _cells(obj: Manifest, now: datetime) -> Cells:
    status = part(obj, "status")
    info = part(status, "nodeInfo")
    addresses = {each.get("type"): each.get("address") for each in items(status, "addresses")}
    facts = ("osImage", "kernelVersion", "containerRuntimeVersion")
    return [
        obj["metadata"]["name"],
        _node_status(obj),
        _node_roles(obj["metadata"].get("labels") or {}),
        age(obj, now),
        info.get("kubeletVersion") or "",
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        *(info.get(name) or UNKNOWN for name in facts),
    ]


def _node_status(obj: Manifest) -> str:
    conditions = items(part(obj, "status"), "conditions")
    ready = next((c for c in conditions if c.get("type") == "Ready"), None)
    words = ["Unknown" if ready is None else ["NotReady", "Ready"][ready.get("status") == "True"]]
    if part(obj, "spec").get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(labels: dict[str, str]) -> str:
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return ",".join(sorted(role for role in roles if role)) or NONE


NODE: Final = builtin_kind(
    "",
    "Node",
    "nodes",
    "no",
    namespaced=False,
    subresources=("status",),
    more_fields=("spec.unschedulable",),
    defaults=Defaults({"spec": {}}),
    status=None,
    columns=(
        "Name | Status | Roles | Age | Version | Internal-IP+ | External-IP+ | OS-Image+ | "
        "Kernel-Version+ | Container-Runtime+"
    ),
    cells=_cells,
    admit=_not_ready,
    before_create=_create,
)
