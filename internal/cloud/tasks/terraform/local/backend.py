"""Terraform by a binary of the task's image."""

import re
from typing import Final

from apis.cloud import TerraformSettings
from internal.cloud.tasks.task import TaskContext, TaskRejected, TaskResult
from internal.cloud.tasks.terraform.backends import TerraformOrder
from internal.cloud.tasks.terraform.local.engine import LocalEngine
from internal.cloud.tasks.terraform.local.settings import environment_from, local_settings

_HOST: Final = re.compile(r"https?://([^/:]+)")


async def run(order: TerraformOrder) -> TaskResult:
    """Apply or remove the infrastructure. Raises TaskError and TaskRejected; see the engine."""
    context, spec = order.context, order.spec
    if spec.tfc_runs_mode == "vcs":
        raise TaskRejected(
            "tfcRunsMode vcs takes infrastructure.terraform.organization: a local binary has no runs"
            " to look at"
        )
    settings = local_settings(
        {
            **order.environment,
            **environment_from(spec.infrastructure.environment_from, context.secret_keys),
            **_registry_token(context, order.settings),
        },
        context.input.owner.namespace,
        context.input.instance,
    )
    engine = LocalEngine(settings, context.input, spec, context.folder, context.progress)
    return await (engine.teardown() if order.teardown else engine.apply())


def _registry_token(context: TaskContext, settings: TerraformSettings) -> dict[str, str]:
    """Return the variable with the token of a private registry of modules.

    https://developer.hashicorp.com/terraform/cli/config/config-file, Environment Variable Credentials
    """
    host = _HOST.match(settings.address)
    if settings.token_from is None or host is None:
        return {}
    name = host.group(1).replace("-", "__").replace(".", "_")
    return {f"TF_TOKEN_{name}": context.secret(settings.token_from).strip()}
