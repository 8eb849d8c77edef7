"""A manager with the controller of FleetRollouts alone, to be killed."""

from __future__ import annotations

from collections.abc import Sequence

from ctrlruntime.client.config import Config
from ctrlruntime.manager import Manager, ManagerOptions
from ctrlruntime.manager import run as run_on_uvloop
from tests.cloud.rollouts.harness import add_rollouts


def main(args: Sequence[str]) -> None:
    """Argument: the kubeconfig."""
    (kubeconfig,) = args
    run_on_uvloop(live(kubeconfig))


async def live(kubeconfig: str) -> None:
    options = ManagerOptions(metrics_bind_address="0", health_bind_address="0", handle_signals=True)
    manager = Manager(await Config.load(kubeconfig), options)
    add_rollouts(manager)
    await manager.start()
