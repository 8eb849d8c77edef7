"""Services."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.name_rules import label
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import FieldError, bad_value, duplicate, required
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.kinds.pod_template import PROTOCOLS
from ctrlruntime.envtest.server.metadata import validate_labels
from ctrlruntime.envtest.server.printers.column import (
    NONE,
    Cells,
    age,
    items,
    joined,
    labels_text,
    part,
)

_Object = dict[str, Any]


def _fill(spec: _Object) -> None:
    for port in spec.get("ports") or ():
        if port.get("targetPort") in {None, "", 0}:
            port["targetPort"] = port.get("port") or 0
    kind = spec.get("type")
    if kind in {"NodePort", "LoadBalancer"}:
        spec.setdefault("externalTrafficPolicy", "Cluster")
    if kind in {"ClusterIP", "NodePort", "LoadBalancer"}:
        spec.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if spec["sessionAffinity"] == "None":
        spec.pop("sessionAffinityConfig", None)
    if spec["sessionAffinity"] == "ClientIP":
        config = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
        config.setdefault("timeoutSeconds", 10800)


def _check(spec: _Object, prefix: str) -> Iterator[FieldError]:
    ports = spec.get("ports") or []
    if not ports and spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        yield required(f"{prefix}ports")
    names: set[str] = set()
    numbers: set[tuple[Any, Any]] = set()
    for index, port in enumerate(ports):
        path = f"{prefix}ports[{index}]"
        known = port.get("protocol"), port.get("port")
        if known in numbers:
            yield duplicate(path, {"protocol": known[0], "port": known[1]})
        numbers.add(known)
        number = port.get("port")
        if not isinstance(number, int) or not 0 < number < 65536:
            yield bad_value(f"{path}.port", number or 0, "must be between 1 and 65535, inclusive")
        target = port.get("targetPort")
        if isinstance(target, int) and not 0 < target < 65536:
            yield bad_value(f"{path}.targetPort", target, "must be between 1 and 65535, inclusive")
        name = port.get("name") or ""
        if len(ports) > 1 and not name:
            yield required(f"{path}.name")
        elif name and name in names:
            yield duplicate(f"{path}.name", name)
        for text in label(name) if name else ():
            yield bad_value(f"{path}.name", name, text)
        names.add(name)
    if selector := spec.get("selector"):
        yield from validate_labels(selector, f"{prefix}selector")
    if spec.get("type") == "ExternalName" and not spec.get("externalName"):
        yield required(f"{prefix}externalName")


def _warnings(new: Manifest, old: Manifest | None) -> Iterator[str]:
    del old
    if part(new, "spec").get("trafficDistribution") == "PreferClose":
        yield 'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"'


def _keep_address(new: _Object, old: _Object) -> Iterator[FieldError]:
    before, after = old["spec"].get("clusterIP"), new["spec"].get("clusterIP")
    kept = {old["spec"].get("type"), new["spec"].get("type")}
    if before and "ExternalName" not in kept and after != before:
        value = new["spec"].get("clusterIPs")
        yield bad_value("spec.clusterIPs[0]", value, "may not change once set")


def _cells(obj: Manifest, now: datetime) -> Cells:
    spec = part(obj, "spec")
    addresses = items(spec, "clusterIPs")
    cluster = spec.get("clusterIP") or (addresses[0] if addresses else NONE)
    return [
        obj["metadata"]["name"],
        spec.get("type") or "",
        cluster,
        _external(spec, part(part(obj, "status"), "loadBalancer")),
        joined(map(_port, items(spec, "ports"))) or NONE,
        age(obj, now),
        labels_text(spec.get("selector")),
    ]


def _external(spec: dict[str, Any], balancer: dict[str, Any]) -> str:
    kind, own = spec.get("type"), items(spec, "externalIPs")
    if kind == "ExternalName":
        return str(spec.get("externalName") or "")
    if kind == "LoadBalancer":
        given = balancer_points(balancer)
        return joined([*given, *own]) or "<pending>"
    return joined(own) or NONE


def balancer_points(balancer: dict[str, Any]) -> list[str]:
    return [each.get("ip") or each.get("hostname") or "" for each in items(balancer, "ingress")]


def _port(port: dict[str, Any]) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', '')}{node}/{port.get('protocol', 'TCP')}"


SERVICE: Final = builtin_kind(
    "",
    "Service",
    "services",
    "svc",
    warnings=_warnings,
    categories=("all",),
    subresources=("status",),
    name_rule="label",
    create_on_update=True,
    more_fields=("spec.clusterIP", "spec.type"),
    defaults=Defaults(
        {"spec": {}},
        {
            "spec": Defaults(
                {"sessionAffinity": "None", "type": "ClusterIP"},
                {"ports": Defaults({"protocol": "TCP"})},
                (_fill,),
            )
        },
    ),
    status={"loadBalancer": {}},
    spec_rules=Rules(
        enums={
            "type": ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort"),
            "sessionAffinity": ("ClientIP", "None"),
            "externalTrafficPolicy": ("Cluster", "Local"),
        },
        within={"ports": Rules(enums={"protocol": PROTOCOLS})},
        checks=(_check,),
    ),
    updates=(_keep_address,),
    columns="Name | Type | Cluster-IP | External-IP | Port(s) | Age | Selector+",
    cells=_cells,
)
