"""How much more memory than before this process took at most."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_STATUS = Path("/proc/self/status")
_REFS = Path("/proc/self/clear_refs")


@dataclass(slots=True)
class Peak:
    """Set when the measurement ends."""

    mib: float = 0.0


@contextmanager
def peak_above_idle() -> Iterator[Peak]:
    """Measure by the kernel's count of the process, whose peak is set back first."""
    gc.collect()
    _REFS.write_text("5")  # sets VmHWM back to VmRSS
    before = _field("VmRSS")
    found = Peak()
    try:
        yield found
    finally:
        found.mib = max(0.0, (_field("VmHWM") - before) / 1024)


def _field(name: str) -> int:
    """Return KiB."""
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise LookupError(f"{_STATUS} has no {name}")
