"""What the figures of `make bench-runtime` may be at most."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WRITES_PER_OBJECT = 2
RSS_MIB = 80.0
"""With 5,000 widgets and as many ConfigMaps held; fewer take less."""
CPU_RATIO_TO_BASE = 0.6
ADAPTER_WRITES, ADAPTER_CPU_SECONDS = 0.67, 0.6
"""Of kopf's, by the same handler on ctrlruntime.kopf."""
IMPORT_CPU_SECONDS = 0.4
FIRST_RECONCILE_SECONDS = 1.0
"""With 5,000 widgets. Of processor time, as others may use the machine; the length is reported beside it."""


def exceeded(line: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each figure that exceeds its bound."""
    bounds = {
        "writes": WRITES_PER_OBJECT * line["n"],
        "conflicts": 0,
        "restart_writes": 0,
        "rss_mib": RSS_MIB,
        "cpu_ratio_to_base": CPU_RATIO_TO_BASE,
        "adapter_writes_to_peer": ADAPTER_WRITES,
        "adapter_cpu_seconds_to_peer": ADAPTER_CPU_SECONDS,
        "import_cpu_seconds": IMPORT_CPU_SECONDS,
        "first_reconcile_cpu_seconds": FIRST_RECONCILE_SECONDS,
    }
    return [
        f"{name} is {line[name]}, and may be {bound} at most"
        for name, bound in bounds.items()
        if line.get(name, 0) > bound
    ]
