"""What carries out Terraform: one registration each, imported when an instance is configured for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal, Protocol, cast

from apis.cloud import InstanceTerraformSpec, TaskOperation, TerraformSettings
from internal.cloud.tasks.task import DRIFT, TaskContext, TaskResult
from internal.cloud.tasks.terraform.events import Summary

if TYPE_CHECKING:
    from internal.cloud.tasks.http import RetryPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class TerraformOrder:
    """One run of the task, and what it may use."""

    context: TaskContext
    spec: InstanceTerraformSpec
    settings: TerraformSettings
    environment: Mapping[str, str]
    """Variables of the task's process."""
    sleep: Callable[[float], Awaitable[None]]
    now: Callable[[], datetime]
    retries: RetryPolicy | None
    """How requests to HCP Terraform are repeated; None: as by default."""

    @property
    def teardown(self) -> bool:
        """Whether the infrastructure is to be removed."""
        return self.context.input.operation is TaskOperation.TEARDOWN


def drift_result(summary: Summary | None, *, about: str = "") -> TaskResult:
    """Return the result of a run that looked for drift and applied nothing. None: nothing differs."""
    if summary is None:
        return TaskResult(message=f"{about}nothing differs", outputs={DRIFT: ""})
    found = "only outputs" if summary.empty else summary.planned()
    return TaskResult(message=f"{about}drift: {found}", outputs={DRIFT: found})


class Backend(Protocol):
    """Carries out one order. Raises TaskError and TaskRejected."""

    async def __call__(self, order: TerraformOrder) -> TaskResult: ...


BackendName = Literal["hcp", "local"]

BACKENDS: Final[Mapping[BackendName, str]] = {
    "hcp": "internal.cloud.tasks.terraform.hcp.engine",
    "local": "internal.cloud.tasks.terraform.local.engine",
}
"""Modules with a function `run`, a Backend."""


def backend_of(name: BackendName) -> Backend:
    """Import and return a backend."""
    return cast("Backend", import_module(BACKENDS[name]).run)
