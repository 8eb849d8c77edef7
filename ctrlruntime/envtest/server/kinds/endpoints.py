"""Endpoints and EndpointSlices."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from datetime import datetime
from typing import Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.api.name_rules import label
from ctrlruntime.envtest.server.checking import Rules
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.errors import FieldError, bad_value, not_supported, required
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.kinds.immutable import fixed
from ctrlruntime.envtest.server.kinds.pod_template import PROTOCOLS
from ctrlruntime.envtest.server.printers.column import NONE, Cells, age, items, joined


def _cells(obj: Manifest, now: datetime) -> Cells:
    found: list[str] = []
    for subset in items(obj, "subsets"):
        addresses = [each.get("ip", "") for each in items(subset, "addresses")]
        ports = items(subset, "ports")
        if ports:
            found += [f"{ip}:{port.get('port', '')}" for port in ports for ip in addresses]
        else:
            found += addresses
    return [obj["metadata"]["name"], joined(found, 3) or NONE, age(obj, now)]


ENDPOINTS: Final = builtin_kind(
    "",
    "Endpoints",
    "endpoints",
    "ep",
    create_on_update=True,
    deprecated="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    defaults=Defaults(
        within={"subsets": Defaults(within={"ports": Defaults({"protocol": "TCP"})})}
    ),
    columns="Name | Endpoints | Age",
    cells=_cells,
)
_FAMILIES: Final = {"IPv4": 4, "IPv6": 6}


def _check(obj: Manifest, prefix: str) -> Iterator[FieldError]:
    kind = obj.get("addressType")
    for index, endpoint in enumerate(obj.get("endpoints") or ()):
        path = f"{prefix}endpoints[{index}].addresses"
        if not endpoint.get("addresses"):
            yield required(path, "must contain at least 1 address")
        for at, text in enumerate(endpoint.get("addresses") or ()):
            if kind in _FAMILIES:
                yield from _address(text, f"{path}[{at}]", path, kind)
    for index, port in enumerate(obj.get("ports") or ()):
        for text in label(port["name"]) if port.get("name") else ():
            yield bad_value(f"{prefix}ports[{index}].name", port["name"], text)
        if (protocol := port.get("protocol")) not in (None, *PROTOCOLS):
            yield not_supported(f"{prefix}ports[{index}].protocol", protocol, PROTOCOLS)


def _address(text: str, path: str, of_all: str, kind: str) -> Iterator[FieldError]:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        yield bad_value(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
        return
    if address.version != _FAMILIES[kind]:
        yield bad_value(of_all, text, f"must be an {kind} address")
    if address.is_unspecified:
        yield bad_value(path, text, f"may not be unspecified ({address})")
    if address.is_loopback:
        yield bad_value(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")


ENDPOINT_SLICE: Final = builtin_kind(
    "discovery.k8s.io",
    "EndpointSlice",
    "endpointslices",
    generation=True,
    defaults=Defaults(
        within={
            "endpoints": Defaults({"conditions": {}}),
            "ports": Defaults({"name": "", "protocol": "TCP"}),
        }
    ),
    rules=Rules(checks=(_check,)),
    updates=(fixed("addressType"),),
)
