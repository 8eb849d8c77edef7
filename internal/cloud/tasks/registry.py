"""The tasks by name. A module is imported when its task is wanted, so that a run loads one of them."""

from collections.abc import Callable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final, TypeAlias, cast

from internal.cloud.tasks.task import Task

__all__ = ["TASKS", "Registry", "TaskFactory", "UnknownTask", "lazily", "make_task"]

TaskFactory: TypeAlias = Callable[[], Task]
Registry: TypeAlias = Mapping[str, TaskFactory]


class UnknownTask(LookupError):
    """There is no task of that name; the message lists those there are."""


def lazily(place: str) -> TaskFactory:
    """Return the factory `module:name`, imported when it is called."""
    module, _, name = place.partition(":")

    def make() -> Task:
        factory: Any = getattr(import_module(module), name)
        return cast("Task", factory())

    return make


def make_task(name: str, registry: Registry) -> Task:
    """Return a task of that name. Raises UnknownTask."""
    if name not in registry:
        known = ", ".join(sorted(registry)) or "none"
        raise UnknownTask(f"there is no task {name!r}; there are: {known}")
    return registry[name]()


TASKS: Final[Registry] = MappingProxyType(
    {
        "invariants": lazily("internal.cloud.tasks.invariants:InvariantsTask"),
        "kubernetes": lazily("internal.cloud.tasks.kubernetes:KubernetesTask"),
        "resize": lazily("internal.cloud.tasks.resize:ResizeTask"),
        "terraform": lazily("internal.cloud.tasks.terraform.task:TerraformTask"),
        "upgrade": lazily("internal.cloud.tasks.upgrade:UpgradeTask"),
    }
)
"""Every task of `manager task run`."""
