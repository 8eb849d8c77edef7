"""Validation of network policies and ingresses."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from typing import Any, Final

from ctrlruntime.api.name_rules import subdomain
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.errors import FieldError, bad_value, not_supported, required
from ctrlruntime.envtest.server.metadata import validate_labels

_Object = dict[str, Any]
_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PATH_TYPES: Final = ("Exact", "ImplementationSpecific", "Prefix")
_WILDCARD: Final = re.compile(r"\*(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+")


def _policy(spec: _Object, prefix: str) -> Iterator[FieldError]:
    yield from _selector(spec.get("podSelector") or {}, f"{prefix}podSelector")
    for direction, side in (("ingress", "from"), ("egress", "to")):
        for index, rule in enumerate(spec.get(direction) or ()):
            path = f"{prefix}{direction}[{index}]"
            for at, port in enumerate(rule.get("ports") or ()):
                yield from _policy_port(port, f"{path}.ports[{at}]")
            for at, peer in enumerate(rule.get(side) or ()):
                yield from _peer(peer, f"{path}.{side}[{at}]")
    types = spec.get("policyTypes") or ()
    if len(types) > 2:
        yield bad_value(f"{prefix}policyTypes", types, "may not specify more than two policyTypes")
        return
    for index, kind in enumerate(types):
        if kind not in {"Ingress", "Egress"}:
            yield not_supported(f"{prefix}policyTypes[{index}]", kind, ("Ingress", "Egress"))


def _selector(selector: _Object, path: str) -> Iterator[FieldError]:
    yield from validate_labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")


def _policy_port(port: _Object, path: str) -> Iterator[FieldError]:
    if (protocol := port.get("protocol")) not in (None, *_PROTOCOLS):
        yield not_supported(f"{path}.protocol", protocol, _PROTOCOLS)
    number = port.get("port")
    if isinstance(number, int) and not 0 < number < 65536:
        yield bad_value(f"{path}.port", number, "must be between 1 and 65535, inclusive")


def _peer(peer: _Object, path: str) -> Iterator[FieldError]:
    if not peer:
        yield required(path, "must specify a peer")
        return
    for name in ("podSelector", "namespaceSelector"):
        yield from _selector(peer.get(name) or {}, f"{path}.{name}")
    block = peer.get("ipBlock")
    if block is None:
        return
    if len(peer) > 1:
        text = "may not specify both ipBlock and another peer"
        yield FieldError(path, "FieldValueForbidden", f"Forbidden: {text}")
    cidr = block.get("cidr") or ""
    if not cidr:
        yield required(f"{path}.ipBlock.cidr")
    elif not _is_network(cidr):
        yield bad_value(
            f"{path}.ipBlock.cidr",
            cidr,
            "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)",
        )


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return "/" in text


def _ingress(spec: _Object, prefix: str) -> Iterator[FieldError]:
    if not spec.get("rules") and not spec.get("defaultBackend"):
        detail = "either `defaultBackend` or `rules` must be specified"
        yield bad_value(prefix.rstrip("."), spec.get("rules"), detail)
    if backend := spec.get("defaultBackend"):
        yield from _backend(backend, f"{prefix}defaultBackend")
    for index, rule in enumerate(spec.get("rules") or ()):
        yield from _ingress_rule(rule, f"{prefix}rules[{index}]")
    if name := spec.get("ingressClassName"):
        for text in subdomain(name):
            yield bad_value(f"{prefix}ingressClassName", name, text)


def _ingress_rule(rule: _Object, path: str) -> Iterator[FieldError]:
    host = rule.get("host") or ""
    if host and "*" not in host:
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
    if not service.get("name"):
        yield required(f"{path}.service.name")
    port = service.get("port") or {}
    number, name = port.get("number") or 0, port.get("name") or ""
    if not number and not name:
        yield required(f"{path}.service.port", "port name or number is required")
    elif number and not 0 < number < 65536:
        text = "must be between 1 and 65535, inclusive"
        yield bad_value(f"{path}.service.port.number", number, text)


NETWORK_POLICY: Final = Rules(within={"spec": Rules(checks=(_policy,))})
INGRESS: Final = Rules(within={"spec": Rules(checks=(_ingress,))})
