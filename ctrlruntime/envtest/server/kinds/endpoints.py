"""Endpoints and EndpointSlices."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.envtest.server.defaulting import Defaults
from ctrlruntime.envtest.server.kinds.declare import builtin_kind
from ctrlruntime.envtest.server.kinds.immutable import fixed
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
    defaults=Defaults(
        within={"subsets": Defaults(within={"ports": Defaults({"protocol": "TCP"})})}
    ),
    columns="Name | Endpoints | Age",
    cells=_cells,
)
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
    updates=(fixed("addressType"),),
)
