"""The task: by HCP Terraform where the instance names an organization, by a local binary otherwise."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from pydantic import ValidationError

from apis.cloud import InstanceTerraformSpec, TerraformSettings
from ctrlruntime.clock import utc_now
from internal.cloud.tasks.task import INTERRUPTIBLE, TaskContext, TaskRejected, TaskResult
from internal.cloud.tasks.terraform.backends import TerraformOrder, backend_of

if TYPE_CHECKING:
    from internal.cloud.tasks.http import RetryPolicy


class TerraformTask:
    """Builds the infrastructure of an InstanceTerraform, or destroys it."""

    name = "terraform"

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], datetime] = utc_now,
        retries: RetryPolicy | None = None,
    ) -> None:
        self._environment = os.environ if environment is None else environment
        self._sleep = sleep
        self._now = now
        self._retries = retries

    async def run(self, context: TaskContext) -> TaskResult:
        """Raise TaskError and TaskRejected; see the backends."""
        context.keep(INTERRUPTIBLE, "true")
        try:
            spec = InstanceTerraformSpec.model_validate(context.input.spec)
        except ValidationError as error:
            raise TaskRejected(f"the spec is not as its kind wants it: {error}") from error
        order = TerraformOrder(
            context=context,
            spec=spec,
            settings=spec.infrastructure.terraform or TerraformSettings(),
            environment=self._environment,
            sleep=self._sleep,
            now=self._now,
            retries=self._retries,
        )
        if order.teardown and context.input.protected:
            raise TaskRejected(
                "deletion protection is on, so nothing is torn down: set"
                " spec.deletionProtection of the Instance to false (it wins over spec.debug.enableDeletionProtection) and ask for a retry"
            )
        run = backend_of("local" if order.settings.organization is None else "hcp")
        return await run(order)
