"""How programs import what lasts."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import gc, sys
from ctrlruntime.fast_imports import fast_imports
try:
    with fast_imports():
        assert not gc.isenabled()
        import structlog
        raise LookupError
except LookupError:
    pass
assert gc.isenabled() and gc.get_freeze_count() > 10_000
assert structlog.dev.rich is None and "rich" not in sys.modules
import rich.console
with fast_imports():
    import rich.traceback  # who has it keeps it
gc.disable()
with fast_imports():
    import json
assert not gc.isenabled()  # a simulation collects nothing: that would clean up after what was killed
"""


def test_no_garbage_is_looked_for_and_no_toolkit_for_terminals_comes_along() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
