"""What carries out Terraform: one registration each, imported when an instance is configured for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Final, Literal, Protocol, cast

from apis.cloud import InstanceTerraformSpec, TaskOperation, TerraformSettings
from internal.cloud.tasks.plans import MadePlan, plan_output
from internal.cloud.tasks.task import DRIFT, TaskContext, TaskRejected, TaskResult
from internal.cloud.tasks.terraform.events import Summary
from internal.cloud.tasks.terraform.protection import Destruction

if TYPE_CHECKING:
    from internal.cloud.runs import RunInput
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


def waiting_result(plan: MadePlan, *, about: str = "") -> TaskResult:
    """Return the result of a run whose plan waits for an approval and is not applied."""
    numbers = Summary(add=plan.add, change=plan.change, destroy=plan.destroy).planned()
    return TaskResult(message=f"{about}{numbers}; not applied", outputs=plan_output(plan))


def made_plan(
    content: str, summary: Summary, found: Sequence[Destruction], *, link: str = ""
) -> MadePlan:
    """Return a plan as it is handed back."""
    return MadePlan(
        content=content,
        add=summary.add,
        change=summary.change,
        destroy=max(summary.destroy, len(found)),
        replace=sum(item.replaced for item in found),
        destroys=tuple(str(item) for item in found),
        link=link,
    )


def rejected_result(order: RunInput) -> TaskResult:
    """Return the result of a run that gives up a plan: of one for drift, that it differs. Raises TaskRejected otherwise."""
    summary = "" if order.plan is None else order.plan.summary
    if order.operation is TaskOperation.REPAIR:
        return TaskResult(message=f"drift: {summary}; rejected", outputs={DRIFT: summary})
    raise TaskRejected(f"the plan ({summary}) was rejected, and nothing was applied")


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
