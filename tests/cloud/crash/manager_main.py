"""A manager of the cloud system alone, whose tasks are the stub beside this file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ctrlruntime.client.config import Config
from ctrlruntime.manager import Manager, ManagerOptions
from ctrlruntime.manager import run as run_on_uvloop
from internal.cloud.pace import Pace
from manager.controllers.cloud import add_cloud
from manager.controllers.cloud_options import CloudOptions, RunsOptions

STUB = Path(__file__).with_name("stub.py")


def main(args: Sequence[str]) -> None:
    """Arguments: kubeconfig, folder of runs, file that the stub writes what it does to."""
    kubeconfig, folder, record = args
    run_on_uvloop(live(kubeconfig, Path(folder), record))


async def live(kubeconfig: str, folder: Path, record: str) -> None:
    options = ManagerOptions(metrics_bind_address="0", health_bind_address="0", handle_signals=True)
    manager = Manager(await Config.load(kubeconfig), options)
    runs = RunsOptions(
        folder=folder,
        command=(sys.executable, "-I", "-S", str(STUB)),
        environment={"STUB_RECORD": record},
    )
    add_cloud(manager, CloudOptions(runs=runs, pace=Pace(settle=0.0, poll_least=0.1)))
    await manager.start()
