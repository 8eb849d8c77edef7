"""A manager process that competes for leadership with short times; for tests of hand-overs."""

from __future__ import annotations

import sys
from pathlib import Path

from ctrlruntime.client.config import Config
from ctrlruntime.manager import ElectionOptions, Manager, ManagerOptions
from ctrlruntime.manager import run as run_on_uvloop
from manager.controllers.tenancy import add_tenancy
from manager.options import LEADER_ELECTION_ID
from tests.manifests.installation import NAMESPACE
from tests.tenancy.harness import permissive


async def compete(kubeconfig: Path, sqlite_root: Path, identity: str, lease: float) -> None:
    times = ElectionOptions(lease_duration=lease, renew_deadline=lease * 0.7, retry_period=0.4)
    options = ManagerOptions(
        name="manager",
        leader_election=True,
        leader_election_id=LEADER_ELECTION_ID,
        leader_election_namespace=NAMESPACE,
        leader_election_identity=identity,
        election=times,
        metrics_bind_address="0",
        health_bind_address="0",
        handle_signals=True,
    )
    manager = Manager(await Config.load(kubeconfig, None), options)
    add_tenancy(manager, permissive(sqlite_root))
    await manager.start()


if __name__ == "__main__":
    run_on_uvloop(compete(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], float(sys.argv[4])))
