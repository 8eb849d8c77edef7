"""An operator as a process, with the options of these tests."""

from __future__ import annotations

from collections.abc import Sequence

from ctrlruntime.client.config import Config
from ctrlruntime.manager import Manager, ManagerOptions
from ctrlruntime.manager import run as run_on_uvloop
from internal.fleet.plane_checks import CheckTimes
from internal.fleet.stack_builder import StackOptions
from manager.controllers.fleet import OperatorOptions, add_operator
from tests.fleet.operator.harness import KINDS, UNRENEWED


def main(args: Sequence[str]) -> None:
    """Argument: kubeconfig."""
    (kubeconfig,) = args
    run_on_uvloop(live(kubeconfig))


async def live(kubeconfig: str) -> None:
    """Run until it is stopped."""
    options = ManagerOptions(metrics_bind_address="0", health_bind_address="0", handle_signals=True)
    manager = Manager(await Config.load(kubeconfig), options)
    add_operator(
        manager,
        OperatorOptions(
            stack=StackOptions(image="stack:1"),
            status_delay=0.0,
            unrenewed=UNRENEWED,
            checks=CheckTimes(retry=0.05, longest_retry=0.2),
            kinds=KINDS,
        ),
    )
    await manager.start()
