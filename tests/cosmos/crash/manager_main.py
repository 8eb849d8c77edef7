"""A manager of the cosmos system alone, whose schedules go by a time that is written in a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from ctrlruntime.client.config import Config
from ctrlruntime.manager import Manager, ManagerOptions
from ctrlruntime.manager import run as run_on_uvloop
from manager.controllers.cosmos import add_cosmos
from tests.cosmos.fullnode.harness import OPTIONS


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
    run_on_uvloop(live(kubeconfig, datetime.fromisoformat(Path(moment).read_text())))


async def live(kubeconfig: str, moment: datetime) -> None:
    options = ManagerOptions(metrics_bind_address="0", health_bind_address="0", handle_signals=True)
    manager = Manager(await Config.load(kubeconfig), options)
    add_cosmos(manager, replace(OPTIONS, clock=Standing(moment)))
    await manager.start()
