"""Managers of the tenancy system, forked for a world."""

from __future__ import annotations

from ctrlruntime.envtest.process import ChildProcess
from tests.tenancy.harness import World
from tests.tenancy.manager_forkserver import ForkServer


async def fork_manager(
    world: World, forkserver: ForkServer, *flags: str, status_period: float
) -> ChildProcess:
    """Start `manager run` on the table of a world, with more `flags`. Its log is that of the world."""
    command = ["run", "--system", "tenancy", "--allow-sqlite", str(world.folder)]
    command += ["--kubeconfig", str(world.environment.kubeconfig("manager"))]
    command += ["--metrics-bind-address", "0", "--health-probe-bind-address", "0"]
    command += ["--status-period", str(status_period), *flags]
    return await forkserver.start(command, log=world.log)
