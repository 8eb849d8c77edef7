"""Rows of Services and what routes to them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.printers.column import (
    NONE,
    Cells,
    Printer,
    age,
    columns,
    items,
    joined,
    labels_text,
    part,
)


def _service(obj: Manifest, now: datetime) -> Cells:
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
        given = _points(balancer)
        return joined([*given, *own]) or "<pending>"
    return joined(own) or NONE


def _points(balancer: dict[str, Any]) -> list[str]:
    return [each.get("ip") or each.get("hostname") or "" for each in items(balancer, "ingress")]


def _port(port: dict[str, Any]) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port', '')}{node}/{port.get('protocol', 'TCP')}"


def _endpoints(obj: Manifest, now: datetime) -> Cells:
    found: list[str] = []
    for subset in items(obj, "subsets"):
        addresses = [each.get("ip", "") for each in items(subset, "addresses")]
        ports = items(subset, "ports")
        if ports:
            found += [f"{ip}:{port.get('port', '')}" for port in ports for ip in addresses]
        else:
            found += addresses
    return [obj["metadata"]["name"], joined(found, 3) or NONE, age(obj, now)]


def _ingress(obj: Manifest, now: datetime) -> Cells:
    spec = part(obj, "spec")
    hosts = [each["host"] for each in items(spec, "rules") if each.get("host")]
    return [
        obj["metadata"]["name"],
        spec.get("ingressClassName") or NONE,
        joined(hosts, 3) or "*",
        joined(_points(part(part(obj, "status"), "loadBalancer"))),
        "80, 443" if items(spec, "tls") else "80",
        age(obj, now),
    ]


NETWORK: Final[dict[tuple[str, str], Printer]] = {
    ("", "Service"): Printer(
        columns("Name | Type | Cluster-IP | External-IP | Port(s) | Age | Selector+"), _service
    ),
    ("", "Endpoints"): Printer(columns("Name | Endpoints | Age"), _endpoints),
    ("networking.k8s.io", "Ingress"): Printer(
        columns("Name | Class | Hosts | Address | Ports | Age"), _ingress
    ),
}
