"""A Terraform task, HCP Terraform's contract server, and what is between them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from apis.cloud import TaskOperation
from internal.cloud.tasks import TaskContext, TaskResult
from internal.cloud.tasks.terraform.hcp.api import RETRIES
from internal.cloud.tasks.terraform.task import TerraformTask
from tests.cloud.servers.hcp import HCPServer
from tests.cloud.servers.hcp.server import TOKEN
from tests.cloud.tasks.workbench import Workbench

MODULE = {
    "source": "app.terraform.io/acme/instance/google",
    "version": "~> 2.0",
    "inputs": {"size": 3},
    "outputs": ["project_id", "gke_clusters"],
    "sensitiveOutputs": ["kubeconfig"],
}


def spec_of(address: str, *, machine: str = "n2-standard-8", **settings: object) -> dict[str, Any]:
    """The spec of an InstanceTerraform."""
    terraform = {
        "organization": "acme",
        "address": address,
        "tokenFrom": {"name": "hcp", "key": "token"},
        "module": MODULE,
        "workspace": "acme",
        **settings,
    }
    gcp = {"zone": "us-central1-f", "gke": {"blue": {"machineType": machine}}}
    return {"infrastructure": {"gcp": gcp, "terraform": terraform}, "domain": "acme.example"}


@dataclass(slots=True)
class HCPBench:
    """Runs the task against the server; time passes by the server's clock alone."""

    server: HCPServer
    workbench: Workbench

    def __post_init__(self) -> None:
        self.workbench.secrets["hcp", "token"] = TOKEN + "\n"

    def task(self, tries: int = 4, limited: float = 900) -> TerraformTask:
        clock = self.server.clock
        retries = replace(RETRIES, attempts=tries, rate_limited=limited)
        return TerraformTask({}, sleep=clock.sleep, now=clock.now, retries=retries)

    def context(
        self,
        spec: Mapping[str, Any] | None = None,
        *,
        attempt: int = 1,
        operation: TaskOperation = TaskOperation.APPLY,
    ) -> TaskContext:
        context = self.workbench.context(
            "terraform",
            spec if spec is not None else spec_of(self.server.url),
            kind="InstanceTerraform",
            attempt=attempt,
            operation=operation,
        )
        word = "beef" if operation is TaskOperation.TEARDOWN else "cafe"
        run_id = f"terraform-{word}{attempt:08x}"
        return replace(context, input=replace(context.input, run_id=run_id))

    async def apply(
        self,
        spec: Mapping[str, Any] | None = None,
        *,
        attempt: int = 1,
        tries: int = 4,
        **given: object,
    ) -> TaskResult:
        """`given`: fields of the input that are not as usual."""
        context = self.context(spec, attempt=attempt)
        return await self.task(tries).run(_changed(context, given))

    async def teardown(
        self,
        spec: Mapping[str, Any] | None = None,
        *,
        attempt: int = 1,
        tries: int = 4,
        **given: object,
    ) -> TaskResult:
        context = self.context(spec, attempt=attempt, operation=TaskOperation.TEARDOWN)
        return await self.task(tries).run(_changed(context, given))

    def said(self) -> str:
        return "\n".join(self.workbench.said)


def _changed(context: TaskContext, fields: dict[str, Any]) -> TaskContext:
    return replace(context, input=replace(context.input, **fields))
