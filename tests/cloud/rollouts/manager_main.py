"""A manager with the controller of FleetRollouts alone, to be killed."""

from __future__ import annotations

from collections.abc import Sequence

from tests.cloud.rollouts.harness import add_rollouts
from tests.support.manager_process import run_manager


def main(args: Sequence[str]) -> None:
    """Argument: the kubeconfig."""
    (kubeconfig,) = args
    run_manager(kubeconfig, add_rollouts)
