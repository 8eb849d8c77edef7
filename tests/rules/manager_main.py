"""A manager with all three systems, in this process or in one of its own.

Runs of the cloud system are those of tests/cloud/crash/stub.py, which succeed and are recorded.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from ctrlruntime.manager import Manager
from internal.cloud.pace import Pace
from internal.cosmos.clock import Clock, SystemClock
from internal.cosmos.times import Times
from manager.controllers.cloud import add_cloud
from manager.controllers.cloud_options import CloudOptions, RunsOptions
from manager.controllers.cosmos import add_cosmos
from manager.controllers.cosmos_options import CosmosOptions
from manager.controllers.tenancy import add_tenancy
from manager.controllers.tenancy_options import TenancyOptions
from tests.support.manager_process import run_manager

STUB = Path(__file__).parent.parent / "cloud" / "crash" / "stub.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a test may choose of a manager with every controller."""

    clock: Clock = field(default_factory=SystemClock)
    """The time that schedules of the cosmos system go by."""
    runs: RunsOptions | None = None
    """Where runs execute; default: the stub, as local processes."""
    foreign: frozenset[str] = frozenset()
    """Namespaces besides their own that tenants may write to."""


def add_all(manager: Manager, folder: Path, parts: Parts | None = None) -> None:
    """Add every controller; SQLite files, runs and their record are in the folder."""
    parts = parts or Parts()
    runs = parts.runs or stub_runs(folder)
    times = Times(progress=0.2, external=0.5, failure=0.5, upgrade=0.3)
    add_tenancy(
        manager,
        TenancyOptions(
            sqlite_root=folder, status_period=0.1, allow_foreign_namespaces=parts.foreign
        ),
    )
    add_cloud(manager, CloudOptions(runs=runs, pace=Pace(settle=0.0, poll_least=0.1)))
    cosmos = CosmosOptions(
        poll_seconds=0.2, node_sidecar_image="manager:v1", times=times, clock=parts.clock
    )
    add_cosmos(manager, cosmos)


def stub_runs(folder: Path, stub: Path = STUB) -> RunsOptions:
    """Runs that are processes of a stub, which records them in the folder."""
    isolated = ("-I", "-S") if stub == STUB else ()
    return RunsOptions(
        folder=folder / "runs",
        command=(sys.executable, *isolated, str(stub)),
        environment={"STUB_RECORD": str(folder / "runs.jsonl")},
    )


def main(args: Sequence[str]) -> None:
    """Run until SIGTERM. Arguments: kubeconfig, folder."""
    kubeconfig, folder = args
    run_manager(kubeconfig, partial(add_all, folder=Path(folder)))
