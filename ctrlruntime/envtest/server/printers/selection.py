"""Which printer a kind has."""

from __future__ import annotations

from typing import Final

from ctrlruntime.envtest.server.kinds import Kind
from ctrlruntime.envtest.server.printers.cluster import CLUSTER, DEFAULT
from ctrlruntime.envtest.server.printers.column import Printer
from ctrlruntime.envtest.server.printers.custom import custom_printer
from ctrlruntime.envtest.server.printers.network import NETWORK
from ctrlruntime.envtest.server.printers.pods import POD
from ctrlruntime.envtest.server.printers.storage import STORAGE
from ctrlruntime.envtest.server.printers.workloads import WORKLOADS

_BUILTIN: Final[dict[tuple[str, str], Printer]] = {
    ("", "Pod"): POD,
    **WORKLOADS,
    **NETWORK,
    **STORAGE,
    **CLUSTER,
}


def printer_for(kind: Kind, version: str) -> Printer:
    """Return the printer of a kind: upstream's for what people look at, else name and age."""
    if kind.custom:
        return custom_printer(kind.version_entry(version))
    return _BUILTIN.get((kind.group, kind.kind), DEFAULT)
