"""A manager of the cosmos system alone, whose schedules go by a time that is written in a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path

from manager.controllers.cosmos import add_cosmos
from tests.cosmos.fullnode.harness import OPTIONS
from tests.support.manager_process import run_manager


@dataclass(frozen=True)
class Standing:
    """A clock that stands as long as a manager lives."""

    moment: datetime

    def now(self) -> datetime:
        """The moment, in UTC."""
        return self.moment

    def subscribe(self, jumped: Callable[[], None]) -> None:
        """It does not jump."""


def main(args: Sequence[str]) -> None:
    """Arguments: kubeconfig, file with the time."""
    kubeconfig, moment = args
    clock = Standing(datetime.fromisoformat(Path(moment).read_text()))
    run_manager(kubeconfig, partial(add_cosmos, options=replace(OPTIONS, clock=clock)))
