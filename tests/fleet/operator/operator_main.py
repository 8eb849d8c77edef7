"""An operator as a process, with the options of these tests."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from internal.fleet.plane_checks import CheckTimes
from internal.fleet.stack_builder import StackOptions
from manager.controllers.fleet import OperatorOptions, add_operator
from tests.fleet.operator.harness import KINDS, UNRENEWED
from tests.support.manager_process import run_manager


def main(args: Sequence[str]) -> None:
    """Argument: kubeconfig."""
    (kubeconfig,) = args
    options = OperatorOptions(
        stack=StackOptions(image="stack:1"),
        status_delay=0.0,
        unrenewed=UNRENEWED,
        checks=CheckTimes(retry=0.05, longest_retry=0.2),
        kinds=KINDS,
    )
    run_manager(kubeconfig, partial(add_operator, options=options))
