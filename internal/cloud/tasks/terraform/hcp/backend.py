"""Terraform by HCP Terraform, for an instance that names an organization."""

from internal.cloud.tasks.http import session
from internal.cloud.tasks.task import TaskRejected, TaskResult
from internal.cloud.tasks.terraform.backends import TerraformOrder
from internal.cloud.tasks.terraform.hcp.api import HCP, RETRIES
from internal.cloud.tasks.terraform.hcp.engine import Engine, Order


async def run(order: TerraformOrder) -> TaskResult:
    """Apply, observe or remove the infrastructure. Raises TaskError and TaskRejected; see the engine."""
    context, spec, settings = order.context, order.spec, order.settings
    if spec.infrastructure.environment_from:
        raise TaskRejected(
            "infrastructure.environmentFrom is for a local terraform or tofu binary: set variables"
            " and credentials in the workspace (or a variable set), and leave it out"
        )
    if spec.tfc_runs_mode == "vcs" and order.teardown:
        return TaskResult(message="the infrastructure is left to its repository (tfcRunsMode vcs)")
    if settings.token_from is None:
        raise TaskRejected(
            "infrastructure.terraform.tokenFrom is missing: HCP Terraform wants a user's or a team's"
            " token"
        )
    token = context.secret(settings.token_from)
    work = Order(input=context.input, spec=spec, settings=settings, say=context.progress)
    async with session() as http:
        retries = order.retries or RETRIES
        api = HCP(http, settings.address, token, retries=retries, sleep=order.sleep)
        engine = Engine(api, work, now=order.now)
        if order.teardown:
            return await engine.teardown()
        if spec.tfc_runs_mode == "vcs":
            return await engine.observe()
        return await engine.apply()
