"""A manager process that competes for leadership with short times; for tests of hand-overs."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

from ctrlruntime.manager import ElectionOptions
from manager.controllers.tenancy import add_tenancy
from manager.options import LEADER_ELECTION_ID
from tests.manifests.installation import NAMESPACE
from tests.support.manager_process import run_manager
from tests.tenancy.harness import permissive


def compete(kubeconfig: str, sqlite_root: Path, identity: str, lease: float) -> None:
    run_manager(
        kubeconfig,
        partial(add_tenancy, options=permissive(sqlite_root)),
        name="manager",
        leader_election=True,
        leader_election_id=LEADER_ELECTION_ID,
        leader_election_namespace=NAMESPACE,
        leader_election_identity=identity,
        election=ElectionOptions(
            lease_duration=lease, renew_deadline=lease - 1.0, retry_period=0.4
        ),
    )


if __name__ == "__main__":
    compete(sys.argv[1], Path(sys.argv[2]), sys.argv[3], float(sys.argv[4]))
