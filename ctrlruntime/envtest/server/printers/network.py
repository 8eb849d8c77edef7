"""Rows of Services and what routes to them."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.printers.column import (
    NONE,
    UNSET,
    Cells,
    Printer,
    age,
    columns,
    items,
    joined,
    labels_text,
    part,
    selector_text,
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


def _slice(obj: Manifest, now: datetime) -> Cells:
    ports = [
        str(each["port"]) if each.get("port") is not None else "*" for each in items(obj, "ports")
    ]
    found = [ip for each in items(obj, "endpoints") for ip in items(each, "addresses")]
    return [
        obj["metadata"]["name"],
        obj.get("addressType") or "",
        joined(ports, 3) or UNSET,
        joined(found, 3) or UNSET,
        age(obj, now),
    ]


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


def _ingress_class(obj: Manifest, now: datetime) -> Cells:
    spec, parameters = part(obj, "spec"), part(part(obj, "spec"), "parameters")
    shown = NONE
    if parameters:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
        shown = f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"
    return [obj["metadata"]["name"], spec.get("controller") or "", shown, age(obj, now)]


def _policy(obj: Manifest, now: datetime) -> Cells:
    selector = selector_text(part(obj, "spec").get("podSelector"))
    return [obj["metadata"]["name"], selector, age(obj, now)]


NETWORK: Final[dict[tuple[str, str], Printer]] = {
    ("", "Service"): Printer(
        columns("Name | Type | Cluster-IP | External-IP | Port(s) | Age | Selector+"), _service
    ),
    ("", "Endpoints"): Printer(columns("Name | Endpoints | Age"), _endpoints),
    ("discovery.k8s.io", "EndpointSlice"): Printer(
        columns("Name | AddressType | Ports | Endpoints | Age"), _slice
    ),
    ("networking.k8s.io", "Ingress"): Printer(
        columns("Name | Class | Hosts | Address | Ports | Age"), _ingress
    ),
    ("networking.k8s.io", "IngressClass"): Printer(
        columns("Name | Controller | Parameters | Age"), _ingress_class
    ),
    ("networking.k8s.io", "NetworkPolicy"): Printer(columns("Name | Pod-Selector | Age"), _policy),
}
