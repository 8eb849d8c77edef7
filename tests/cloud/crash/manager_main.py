"""A manager of the cloud system alone, whose tasks are the stub beside this file."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from ctrlruntime.sharding import ShardingOptions
from internal.cloud.pace import Pace
from manager.controllers.cloud import add_cloud
from manager.controllers.cloud_options import CloudOptions, RunsOptions
from tests.support.manager_harness import PATIENT
from tests.support.manager_process import run_manager

STUB = Path(__file__).with_name("stub.py")


def main(args: Sequence[str]) -> None:
    """Arguments: kubeconfig, folder of runs, file that the stub writes what it does to; of a member also its name, and a limit."""
    kubeconfig, folder, record, *member = args
    runs = RunsOptions(
        folder=Path(folder),
        command=(sys.executable, "-I", "-S", str(STUB)),
        environment={"STUB_RECORD": record, "STUB_SECONDS": "2" if member else "0.05"},
    )
    limits = {"terraform": int(member[1])} if member else {}
    options = CloudOptions(runs=runs, pace=Pace(settle=0.0, poll_least=0.1), limits=limits)
    shared: dict[str, object] = {}
    if member:
        shared = {
            "leader_election": True,
            "leader_election_namespace": "default",
            "leader_election_id": "tests",
            "leader_election_identity": member[0],
            "election": PATIENT,
            "sharding": ShardingOptions(group="cloud", member=member[0], settle=0.0),
        }
    run_manager(kubeconfig, partial(add_cloud, options=options), **shared)
