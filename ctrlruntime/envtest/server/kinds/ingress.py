"""Ingresses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.name_rules import subdomain
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import FieldError, bad_value, not_supported, required
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.kinds.service import balancer_points
from ctrlruntime.envtest.server.printers.column import NONE, Cells, age, items, joined, part

_Object = dict[str, Any]
_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_WILDCARD: Final = re.compile(r"\*(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")


def _check(spec: _Object, prefix: str) -> Iterator[FieldError]:
    if not spec.get("rules") and not spec.get("defaultBackend"):
        detail = "either `defaultBackend` or `rules` must be specified"
        yield bad_value(prefix.rstrip("."), spec.get("rules"), detail)
    if backend := spec.get("defaultBackend"):
        yield from _backend(backend, f"{prefix}defaultBackend")
    for index, rule in enumerate(spec.get("rules") or ()):
        yield from _rule(rule, f"{prefix}rules[{index}]")
    if name := spec.get("ingressClassName"):
        for text in subdomain(name):
            yield bad_value(f"{prefix}ingressClassName", name, text)


def _rule(rule: _Object, path: str) -> Iterator[FieldError]:
    host = rule.get("host") or ""
    if host and _is_address(host):
        yield bad_value(f"{path}.host", host, "must be a DNS name, not an IP address")
    elif host and "*" not in host:
        for text in subdomain(host):
            yield bad_value(f"{path}.host", host, text)
    elif host and not _WILDCARD.fullmatch(host):
        yield bad_value(f"{path}.host", host, "a wildcard DNS-1123 subdomain must start with '*.'")
    http = rule.get("http")
    if http is not None and not http.get("paths"):
        yield required(f"{path}.http.paths")
    for at, entry in enumerate((http or {}).get("paths") or ()):
        yield from _path(entry, f"{path}.http.paths[{at}]")
        yield from _backend(entry.get("backend") or {}, f"{path}.http.paths[{at}].backend")


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _path(entry: _Object, where: str) -> Iterator[FieldError]:
    kind = entry.get("pathType")
    if not kind:
        yield required(f"{where}.pathType", "pathType must be specified")
    elif kind not in _PATH_TYPES:
        yield not_supported(f"{where}.pathType", kind, _PATH_TYPES)
    elif kind != "ImplementationSpecific" and not str(entry.get("path", "")).startswith("/"):
        yield bad_value(f"{where}.path", entry.get("path", ""), "must be an absolute path")


def _backend(backend: _Object, path: str) -> Iterator[FieldError]:
    service = backend.get("service")
    if service is None:
        if backend.get("resource") is None:
            yield required(path, "resource or service backend is required")
        return
    if backend.get("resource") is not None:
        yield bad_value(path, "", "cannot set both resource and service backends")
        return
    if not service.get("name"):
        yield required(f"{path}.service.name")
    port = service.get("port") or {}
    number, name = port.get("number") or 0, port.get("name") or ""
    if not number and not name:
        yield required(path, "port name or number is required")
    elif number and name:
        yield bad_value(path, "", "cannot set both port name & port number")
    elif number and not 0 < number < 65536:
        text = "must be between 1 and 65535, inclusive"
        yield bad_value(f"{path}.service.port.number", number, text)


def _cells(obj: Manifest, now: datetime) -> Cells:
    spec = part(obj, "spec")
    hosts = [each["host"] for each in items(spec, "rules") if each.get("host")]
    return [
        obj["metadata"]["name"],
        spec.get("ingressClassName") or NONE,
        joined(hosts, 3) or "*",
        joined(balancer_points(part(part(obj, "status"), "loadBalancer"))),
        "80, 443" if items(spec, "tls") else "80",
        age(obj, now),
    ]


INGRESS: Final = builtin_kind(
    "networking.k8s.io",
    "Ingress",
    "ingresses",
    "ing",
    generation=True,
    subresources=("status",),
    defaults=Defaults({"spec": {}}),
    status={"loadBalancer": {}},
    spec_rules=Rules(checks=(_check,)),
    columns="Name | Class | Hosts | Address | Ports | Age",
    cells=_cells,
)
