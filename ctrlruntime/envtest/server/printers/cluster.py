"""Rows of the remaining kinds: configuration, access, nodes and events."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.printers.column import (
    NONE,
    UNKNOWN,
    Cells,
    Printer,
    age,
    columns,
    items,
    part,
    since,
)

_ROLE: Final = "node-role.kubernetes.io/"


def _config_map(obj: Manifest, now: datetime) -> Cells:
    count = len(part(obj, "data")) + len(part(obj, "binaryData"))
    return [obj["metadata"]["name"], count, age(obj, now)]


def _secret(obj: Manifest, now: datetime) -> Cells:
    return [obj["metadata"]["name"], obj.get("type") or "", len(part(obj, "data")), age(obj, now)]


def _account(obj: Manifest, now: datetime) -> Cells:
    return [obj["metadata"]["name"], len(items(obj, "secrets")), age(obj, now)]


def _namespace(obj: Manifest, now: datetime) -> Cells:
    return [obj["metadata"]["name"], part(obj, "status").get("phase") or "", age(obj, now)]


def _node(obj: Manifest, now: datetime) -> Cells:
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


def _event(obj: Manifest, now: datetime) -> Cells:
    """Of either event group: what differs are the names of the fields."""
    about = part(obj, "involvedObject") or part(obj, "regarding")
    event_time = obj.get("eventTime")
    first_seen = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or event_time
    last_seen = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first_seen
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    series = part(obj, "series")
    if series:
        last_seen, count = series.get("lastObservedTime"), series.get("count") or 0
    kind = str(about.get("kind") or "").lower()
    return [
        since(last_seen, now),
        obj.get("type") or "",
        obj.get("reason") or "",
        f"{kind}/{about['name']}" if about.get("name") else kind,
        about.get("fieldPath") or "",
        _event_source(obj),
        str(obj.get("message") or obj.get("note") or "").strip(),
        since(first_seen, now),
        count,
        obj["metadata"]["name"],
    ]


def _event_source(obj: Manifest) -> str:
    source = part(obj, "source") or part(obj, "deprecatedSource")
    names = [
        source.get("component") or obj.get("reportingComponent") or obj.get("reportingController"),
        source.get("host") or obj.get("reportingInstance"),
    ]
    return ", ".join(str(name) for name in names if name)


def _binding(obj: Manifest, now: datetime) -> Cells:
    role = part(obj, "roleRef")
    subjects = items(obj, "subjects")

    def named(kind: str) -> list[dict[str, Any]]:
        return [each for each in subjects if each.get("kind") == kind]

    accounts = [f"{s.get('namespace', '')}/{s.get('name', '')}" for s in named("ServiceAccount")]
    return [
        obj["metadata"]["name"],
        f"{role.get('kind', '')}/{role.get('name', '')}",
        age(obj, now),
        ", ".join(each.get("name", "") for each in named("User")),
        ", ".join(each.get("name", "") for each in named("Group")),
        ", ".join(accounts),
    ]


def _lease(obj: Manifest, now: datetime) -> Cells:
    holder = part(obj, "spec").get("holderIdentity") or ""
    return [obj["metadata"]["name"], holder, age(obj, now)]


def _created(obj: Manifest, _: datetime) -> Cells:
    return [obj["metadata"]["name"], obj["metadata"].get("creationTimestamp")]


def _plain(obj: Manifest, now: datetime) -> Cells:
    return [obj["metadata"]["name"], age(obj, now)]


DEFAULT: Final = Printer(columns("Name | Age"), _plain)
_CREATED: Final = Printer(columns("Name | Created At"), _created)
_EVENT: Final = Printer(
    columns(
        "Last Seen | Type | Reason | Object | Subobject+ | Source+ | Message | First Seen+ | "
        "Count+ | Name+"
    ),
    _event,
)
_BINDING: Final = Printer(
    columns("Name | Role | Age | Users+ | Groups+ | ServiceAccounts+"), _binding
)
_RBAC: Final = "rbac.authorization.k8s.io"

CLUSTER: Final[dict[tuple[str, str], Printer]] = {
    ("", "ConfigMap"): Printer(columns("Name | Data | Age"), _config_map),
    ("", "Secret"): Printer(columns("Name | Type | Data | Age"), _secret),
    ("", "ServiceAccount"): Printer(columns("Name | Secrets | Age"), _account),
    ("", "Namespace"): Printer(columns("Name | Status | Age"), _namespace),
    ("", "Node"): Printer(
        columns(
            "Name | Status | Roles | Age | Version | Internal-IP+ | External-IP+ | OS-Image+ | "
            "Kernel-Version+ | Container-Runtime+"
        ),
        _node,
    ),
    ("", "Event"): _EVENT,
    ("events.k8s.io", "Event"): _EVENT,
    (_RBAC, "RoleBinding"): _BINDING,
    (_RBAC, "ClusterRoleBinding"): _BINDING,
    ("coordination.k8s.io", "Lease"): Printer(columns("Name | Holder | Age"), _lease),
    ("", "LimitRange"): _CREATED,
    (_RBAC, "Role"): _CREATED,
    (_RBAC, "ClusterRole"): _CREATED,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _CREATED,
}
