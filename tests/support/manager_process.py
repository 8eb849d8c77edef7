"""The main function of a manager that is a process of its own, to be stopped or killed by a test."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ctrlruntime.client.config import Config
from ctrlruntime.manager import Manager, ManagerOptions
from ctrlruntime.manager import run as run_on_uvloop


def run_manager(kubeconfig: str, add: Callable[[Manager], object], **options: object) -> None:
    """Run a manager until SIGTERM. `add` adds its controllers, or returns what does; `options` are those of ManagerOptions."""
    run_on_uvloop(_live(kubeconfig, add, options))


async def _live(kubeconfig: str, add: Callable[[Manager], object], options: dict[str, Any]) -> None:
    quiet: dict[str, Any] = {"metrics_bind_address": "0", "health_bind_address": "0"}
    given = ManagerOptions(**{**quiet, "handle_signals": True, **options})
    manager = Manager(await Config.load(kubeconfig), given)
    adding = add(manager)
    if inspect.isawaitable(adding):
        await adding
    await manager.start()
