"""Managers of the tenancy system, forked for a harness."""

from __future__ import annotations

from ctrlruntime.envtest.process import ChildProcess
from tests.tenancy.harness import TenancyHarness
from tests.tenancy.manager_forkserver import ForkServer


async def fork_manager(
    harness: TenancyHarness, forkserver: ForkServer, *flags: str, status_period: float
) -> ChildProcess:
    """Start `manager run` on the table of a harness, with more `flags`. Its log is that of the harness."""
    command = ["run", "--system", "tenancy", "--allow-sqlite", str(harness.folder)]
    command += ["--kubeconfig", str(harness.environment.kubeconfig("manager"))]
    command += ["--metrics-bind-address", "0", "--health-probe-bind-address", "0"]
    command += ["--status-period", str(status_period), *flags]
    return await forkserver.start(command, log=harness.log)
