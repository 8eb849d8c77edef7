"""A manager of the cloud system alone, whose tasks are the stub beside this file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from internal.cloud.pace import Pace
from manager.controllers.cloud import add_cloud
from manager.controllers.cloud_options import CloudOptions, RunsOptions
from tests.support.manager_process import run_manager

STUB = Path(__file__).with_name("stub.py")


def main(args: Sequence[str]) -> None:
    """Arguments: kubeconfig, folder of runs, file that the stub writes what it does to."""
    kubeconfig, folder, record = args
    runs = RunsOptions(
        folder=Path(folder),
        command=(sys.executable, "-I", "-S", str(STUB)),
        environment={"STUB_RECORD": record},
    )
    options = CloudOptions(runs=runs, pace=Pace(settle=0.0, poll_least=0.1))
    run_manager(kubeconfig, partial(add_cloud, options=options))
