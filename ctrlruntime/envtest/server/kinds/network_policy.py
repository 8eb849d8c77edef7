"""NetworkPolicies."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any, Final

from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import FieldError, bad_value, not_supported, required
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.kinds.pod_template import PROTOCOLS
from ctrlruntime.envtest.server.metadata import validate_labels

_Object = dict[str, Any]


def _policy_types(spec: _Object) -> None:
    if spec.get("policyTypes") is None:
        spec["policyTypes"] = ["Ingress"] + (["Egress"] if spec.get("egress") else [])


def _check(spec: _Object, prefix: str) -> Iterator[FieldError]:
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
    if (protocol := port.get("protocol")) not in (None, *PROTOCOLS):
        yield not_supported(f"{path}.protocol", protocol, PROTOCOLS)
    number = port.get("port")
    if isinstance(number, int) and not 0 < number < 65536:
        yield bad_value(f"{path}.port", number, "must be between 1 and 65535, inclusive")
    last = port.get("endPort")
    if last is not None and isinstance(number, int) and last < number:
        yield bad_value(f"{path}.endPort", number, "must be greater than or equal to `port`")


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


_TCP: Final = Defaults(within={"ports": Defaults({"protocol": "TCP"})})
NETWORK_POLICY: Final = builtin_kind(
    "networking.k8s.io",
    "NetworkPolicy",
    "networkpolicies",
    "netpol",
    generation=True,
    defaults=Defaults(
        {"spec": {}},
        {
            "spec": Defaults(
                {"podSelector": {}}, {"ingress": _TCP, "egress": _TCP}, (_policy_types,)
            )
        },
    ),
    spec_rules=Rules(checks=(_check,)),
)
