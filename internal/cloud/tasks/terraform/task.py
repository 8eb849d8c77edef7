"""The task: by HCP Terraform where the instance names an organization, by a local binary otherwise."""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Final

from pydantic import ValidationError

from apis.cloud import InstanceTerraformSpec, TaskOperation, TerraformSettings
from internal.cloud.tasks.exchange import session
from internal.cloud.tasks.task import TaskContext, TaskRejected, TaskResult
from internal.cloud.tasks.terraform.hcp.api import HCP, Patience
from internal.cloud.tasks.terraform.hcp.engine import Engine, Order
from internal.cloud.tasks.terraform.local.engine import LocalEngine
from internal.cloud.tasks.terraform.local.settings import LocalSettings, local_settings

_HOST: Final = re.compile(r"https?://([^/:]+)")


class TerraformTask:
    """Builds what an InstanceTerraform says, or takes it down."""

    name = "terraform"

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        patience: Patience | None = None,
    ) -> None:
        self._environment = os.environ if environment is None else environment
        self._sleep = sleep
        self._now = now
        self._patience = patience

    async def run(self, context: TaskContext) -> TaskResult:
        """Raises TaskError and TaskRejected; see the engines."""
        try:
            spec = InstanceTerraformSpec.model_validate(context.input.spec)
        except ValidationError as error:
            raise TaskRejected(f"the spec is not as its kind wants it: {error}") from error
        settings = spec.infrastructure.terraform or TerraformSettings()
        if settings.organization is not None:
            return await self._by_hcp(context, spec, settings)
        if spec.tfc_runs_mode == "vcs":
            raise TaskRejected(
                "tfcRunsMode vcs takes infrastructure.terraform.organization: a local binary has no runs"
                " to look at"
            )
        return await self._by_binary(context, spec, settings)

    async def _by_hcp(
        self, context: TaskContext, spec: InstanceTerraformSpec, settings: TerraformSettings
    ) -> TaskResult:
        teardown = context.input.operation is TaskOperation.TEARDOWN
        if spec.tfc_runs_mode == "vcs" and teardown:
            return TaskResult(
                message="the infrastructure is left to its repository (tfcRunsMode vcs)"
            )
        if settings.token_from is None:
            raise TaskRejected(
                "infrastructure.terraform.tokenFrom is missing: HCP Terraform wants a user's or a team's"
                " token"
            )
        token = context.secret(settings.token_from)
        order = Order(input=context.input, spec=spec, settings=settings, say=context.progress)
        async with session() as http:
            api = HCP(http, settings.address, token, patience=self._patience, sleep=self._sleep)
            engine = Engine(api, order, now=self._now)
            if teardown:
                return await engine.teardown()
            if spec.tfc_runs_mode == "vcs":
                return await engine.observe()
            return await engine.apply()

    async def _by_binary(
        self, context: TaskContext, spec: InstanceTerraformSpec, settings: TerraformSettings
    ) -> TaskResult:
        given = context.input
        local = local_settings(
            {**self._environment, **_registry_token(context, settings)},
            given.owner.namespace,
            given.instance,
        )
        engine = self._local_engine(context, spec, local)
        if given.operation is TaskOperation.TEARDOWN:
            return await engine.teardown()
        return await engine.apply()

    def _local_engine(
        self, context: TaskContext, spec: InstanceTerraformSpec, local: LocalSettings
    ) -> LocalEngine:
        return LocalEngine(local, context.input, spec, context.folder, context.progress)


def _registry_token(context: TaskContext, settings: TerraformSettings) -> dict[str, str]:
    """For modules of a private registry.

    https://developer.hashicorp.com/terraform/cli/config/config-file, Environment Variable Credentials
    """
    host = _HOST.match(settings.address)
    if settings.token_from is None or host is None:
        return {}
    name = host.group(1).replace("-", "__").replace(".", "_")
    return {f"TF_TOKEN_{name}": context.secret(settings.token_from).strip()}
