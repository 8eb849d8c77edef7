"""The stack of a data plane with the cosmos system alone, as a process."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from ctrlruntime.client.config import Config
from ctrlruntime.manager import Manager
from manager.controllers.cosmos import add_cosmos
from manager.controllers.hub import StackOptions, add_hub
from tests.cosmos.fullnode.harness import OPTIONS
from tests.support.manager_process import run_manager


def main(args: Sequence[str]) -> None:
    """Arguments: kubeconfigs of the data plane and of the hub, the data plane's id."""
    plane, hub, identity = args
    run_manager(plane, partial(_add, hub=hub, identity=identity))


async def _add(manager: Manager, *, hub: str, identity: str) -> None:
    stack = StackOptions(data_plane=identity, target_namespace="plane-0")
    add_cosmos(manager, OPTIONS, await add_hub(manager, await Config.load(hub), stack))
