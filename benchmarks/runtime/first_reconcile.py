"""When a controller's first reconcile began, counted from the start of its process."""

from __future__ import annotations

import os
import time
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge

SECONDS = "bench_first_reconcile_seconds"
CPU_SECONDS = "bench_first_reconcile_cpu_seconds"


class FirstReconcile:
    """Two gauges, 0 before the first reconcile."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Gauge(SECONDS, "Until the first reconcile.", registry=registry)
        self._cpu_seconds = Gauge(CPU_SECONDS, "Processor time until then.", registry=registry)
        self._seen = False

    def mark(self) -> None:
        """Record the first call."""
        if not self._seen:
            self._seen = True
            self._seconds.set(process_age())
            self._cpu_seconds.set(time.process_time())


def process_age() -> float:
    """Return the seconds since this process was started, to a hundredth. Linux only."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started
