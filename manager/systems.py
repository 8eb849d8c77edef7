"""The systems of the manager: each is imported only where it runs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ctrlruntime.fast_imports import fast_imports

if TYPE_CHECKING:
    from ctrlruntime.client.config import Config
    from ctrlruntime.manager import Manager
    from manager.options import RunOptions

AddSystem = Callable[["Manager", "RunOptions", "Config"], Coroutine[None, None, None]]
"""Adds the controllers of one system to a manager."""


def load_systems(systems: Iterable[str]) -> list[AddSystem]:
    """Import the controllers of these systems and return what adds them, in a fixed order."""
    chosen = frozenset(systems)
    with fast_imports():
        return [load() for name, load in _LOADERS.items() if name in chosen]


def _tenancy() -> AddSystem:
    from manager.controllers.tenancy import add_tenancy

    async def add(manager: Manager, options: RunOptions, _config: Config) -> None:
        add_tenancy(manager, options.tenancy)

    return add


def _cloud() -> AddSystem:
    from manager.controllers.cloud import add_cloud
    from manager.controllers.cloud_admission import add_cloud_admission
    from manager.controllers.runs import with_own_image

    async def add(manager: Manager, options: RunOptions, config: Config) -> None:
        runs = await with_own_image(options.cloud.runs, config, options.own_namespace)
        add_cloud(manager, replace(options.cloud, runs=runs), webhooks=options.tenancy.webhooks)
        if options.tenancy.webhooks:
            add_cloud_admission(manager, options.cloud)

    return add


def _cosmos() -> AddSystem:
    from manager.controllers.cosmos import add_cosmos
    from manager.controllers.cosmos_image import with_sidecar_image

    async def add(manager: Manager, options: RunOptions, config: Config) -> None:
        cosmos = await with_sidecar_image(options.cosmos, config, options.own_namespace)
        add_cosmos(manager, cosmos, webhooks=options.tenancy.webhooks)

    return add


_LOADERS: Final[Mapping[str, Callable[[], AddSystem]]] = {
    "tenancy": _tenancy,
    "cloud": _cloud,
    "cosmos": _cosmos,
}
