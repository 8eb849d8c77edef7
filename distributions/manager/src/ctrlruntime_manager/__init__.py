"""The manager as an installable program.

Its packages are in the folder `app`, which is on the path of this program alone: nothing but
`ctrlruntime_manager` lands in site-packages.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

APP = Path(__file__).parent / "app"


def main() -> None:
    """Run the command line of the manager, as `ctrlruntime-manager`."""
    _run("ctrlruntime-manager")


def manager() -> None:
    """Run it by the name that its messages and the documentation call it."""
    _run("manager")


def kubectl_tenants() -> None:
    """Run it as a plugin of kubectl, which finds it on PATH: `kubectl tenants`."""
    _run("kubectl-tenants")


def _run(name: str) -> None:
    sys.path.insert(0, str(APP))
    # For the processes that it starts: runs of tasks, and the demo's manager.
    rest = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(APP), *([rest] if rest else [])])
    from manager.program import main as program

    program(name)
