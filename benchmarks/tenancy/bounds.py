"""What the figures of `make bench-tenancy` may be at most."""

from __future__ import annotations

from typing import Protocol

WRITES_PER_TENANT = 8
MAX_STALL_MS = 50.0
RSS_MIB = 500.0
"""With 10,000 tenants; fewer take less."""
RESTART_SECONDS = 30.0
CPU_RATIO_TO_BASE = 0.7


class Bounded(Protocol):
    """The figures that have bounds."""

    writes: int
    steady_requests: int
    restart_writes: int
    restart_seconds: float
    rss_mib: float
    max_stall_ms: float
    cpu_ratio_to_base: float


def exceeded(rows: int, figures: Bounded) -> list[str]:
    """Return a sentence for each figure that exceeds its bound."""
    bounds: dict[str, tuple[float, float]] = {
        "writes": (figures.writes, WRITES_PER_TENANT * rows + max(100, rows // 10)),
        "steady_requests": (figures.steady_requests, 0),
        "restart_writes": (figures.restart_writes, 0),
        "restart_seconds": (figures.restart_seconds, RESTART_SECONDS),
        "rss_mib": (figures.rss_mib, RSS_MIB),
        "max_stall_ms": (figures.max_stall_ms, MAX_STALL_MS),
        "cpu_ratio_to_base": (figures.cpu_ratio_to_base, CPU_RATIO_TO_BASE),
    }
    return [
        f"{name} is {value:g}, and may be {bound:g} at most"
        for name, (value, bound) in bounds.items()
        if value > bound
    ]
