"""What it costs to import a manager: each time in a process of its own."""

from __future__ import annotations

import subprocess
import sys

TRIES = 5
PROGRAM = """
import time
from ctrlruntime.fast_imports import fast_imports
with fast_imports():
    import ctrlruntime.controller, ctrlruntime.manager, ctrlruntime.resources
print(time.process_time())
"""


def import_cpu_seconds() -> float:
    """Return the processor seconds of a start, Python's own included: the least, which others disturbed least."""
    return min(_once() for _ in range(TRIES))


def _once() -> float:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    return float(done.stdout)
