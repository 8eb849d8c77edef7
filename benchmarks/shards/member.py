"""A manager of the bench, a process of its own: what `manager run` runs, with a Lease as long as the bench has it.

`python -m benchmarks.shards.member KUBECONFIG FOLDER SYSTEM LEASE [NAME]`. Rows of SYSTEM tenancy are in FOLDER, and so are the
runs of SYSTEM cloud. With NAME it shares the work with others, without it works alone.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.frame import NAMESPACE
from ctrlruntime.manager import ElectionOptions, ManagerOptions
from ctrlruntime.manager import run as run_on_uvloop
from internal.cloud.pace import Pace
from internal.cloud.subresources import SUBRESOURCES
from manager.controllers.cloud_options import CloudOptions, RunsOptions
from manager.controllers.tenancy_options import TenancyOptions
from manager.options import RunOptions
from manager.serving.run import run_manager

TASK = Path(__file__).with_name("task.py")
RECORD = "record"
"""The file in FOLDER in which each task notes that it began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberOptions(RunOptions):
    """The options of `manager run`, and the seconds of its Leases."""

    lease: float

    def manager_options(self) -> ManagerOptions:
        """Return the runtime's part of the options; parts of a Lease are those of its default."""
        election = ElectionOptions(
            lease_duration=self.lease,
            renew_deadline=self.lease * 2 / 3,
            retry_period=self.lease * 2 / 15,
        )
        return replace(RunOptions.manager_options(self), election=election)


def options(
    kubeconfig: Path, folder: Path, system: str, lease: float, name: str = ""
) -> MemberOptions:
    """Return the options of one manager."""
    tasks = [item.definition.name for item in SUBRESOURCES]
    record = {"STUB_RECORD": str(folder / RECORD)}
    runs = RunsOptions(
        folder=folder / "runs",
        command=(sys.executable, "-I", "-S", str(TASK)),
        environment=record,
    )
    return MemberOptions(
        lease=lease,
        kubeconfig=kubeconfig,
        systems=(system,),
        metrics_bind_address="0",
        health_probe_bind_address="0",
        leader_elect=bool(name),
        leader_election_namespace=NAMESPACE,
        shards=bool(name),
        shard_name=name,
        tenancy=TenancyOptions(sqlite_root=folder),
        cloud=CloudOptions(
            runs=runs, pace=Pace(poll_least=0.1), starts_per_minute=dict.fromkeys(tasks, 0)
        ),
    )


def main(kubeconfig: str, folder: str, system: str, lease: str, name: str = "") -> None:
    """Run until SIGTERM."""
    given = options(Path(kubeconfig), Path(folder), system, float(lease), name)
    run_on_uvloop(run_manager(given))


if __name__ == "__main__":
    main(*sys.argv[1:])
