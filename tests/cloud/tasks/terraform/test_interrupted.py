"""An apply that was interrupted or killed: what it taints, the lock that it leaves, and how one goes on. A real binary."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apis.cloud import PlanDecision
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.envtest import Environment
from internal.cloud.runs import EarlierPlan
from internal.cloud.tasks import TaskError, TaskResult
from internal.cloud.tasks.plans import plan_of
from internal.cloud.tasks.task import INTERRUPTIBLE, LOCK_HOLDER, LOCK_INFO
from internal.cloud.tasks.terraform.local import engine
from internal.cloud.tasks.terraform.local.engine import failure, holder
from internal.cloud.tasks.terraform.protection import (
    Destruction,
    destructions_in_log,
    destructions_of,
)
from internal.cloud.tasks.terraform.task import TerraformTask
from tests.cloud.tasks.kubeconfigs import inline
from tests.cloud.tasks.workbench import Workbench
from tests.support.waiting import eventually

pytestmark = pytest.mark.criterion("G-C3")

REAL = [name for name in ("terraform", "tofu") if shutil.which(name)]
real = pytest.mark.skipif(not REAL, reason="neither terraform nor tofu is installed")
MODULE = """
variable "instance_name" { type = string }
variable "size" { type = number }
variable "wait" { type = string }
resource "terraform_data" "database" {
  input = var.size
  provisioner "local-exec" {
    command     = "touch ${var.wait}.begun; while [ -e ${var.wait} ]; do sleep 0.05; done"
    interpreter = ["/bin/sh", "-c"]
  }
}
output "address" { value = terraform_data.database.id }
"""
LEASE = GroupVersionKind("coordination.k8s.io", "v1", "Lease")


class RealBench:
    """Runs the task with a real binary whose module waits as long as a file is there."""

    def __init__(self, folder: Path) -> None:
        self.wait = folder / "wait"
        self.module = folder / "module"
        self.module.mkdir()
        (self.module / "main.tf").write_text(MODULE)
        self.workbench = Workbench(folder)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "TERRAFORM_STATE_DIR": str(folder / "states"),
        }
        self.kept: dict[str, str] = {}
        self.reports: list[tuple[str, str]] = []

    def spec(self, size: int) -> dict[str, Any]:
        inputs = {"size": size, "wait": str(self.wait)}
        module = {"source": str(self.module), "inputs": inputs, "outputs": ["address"]}
        return {"infrastructure": {"terraform": {"module": module}}}

    def _keep(self, name: str, value: str) -> None:
        self.reports.append((name, value))
        self.kept.pop(name, None)
        if value:
            self.kept[name] = value

    async def run(
        self, size: int = 1, *, plan: EarlierPlan | None = None, unlock: str = ""
    ) -> TaskResult:
        context = self.workbench.context("terraform", self.spec(size), kind="InstanceTerraform")
        given = replace(context.input, plan=plan, unlock=unlock, protected=True)
        task = TerraformTask(self.environment)
        return await task.run(replace(context, input=given, keep=self._keep))

    @asynccontextmanager
    async def applies(self) -> AsyncIterator[asyncio.Task[TaskResult]]:
        """A run whose resource is being created."""
        self.wait.touch()
        running = asyncio.create_task(self.run())
        begun = Path(f"{self.wait}.begun")
        await eventually(lambda: running.done() or (begun.exists() and LOCK_HOLDER in self.kept))
        assert not running.done(), running.exception()
        try:
            yield running
        finally:
            self.wait.unlink()


@pytest.fixture
def local(tmp_path: Path) -> RealBench:
    return RealBench(tmp_path)


def approved(result: TaskResult) -> EarlierPlan:
    made = plan_of(result.outputs)
    assert made is not None
    return EarlierPlan(
        run_id="terraform-1", content=made.content, summary="", decision=PlanDecision.APPROVED
    )


@real
async def test_g_c3_what_an_interrupted_apply_tainted_waits_for_an_approval(
    local: RealBench,
) -> None:
    """Under deletion protection, where replacing anything else is refused."""
    async with local.applies() as running:
        assert INTERRUPTIBLE not in local.kept, "newer inputs wait for an apply"
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    result = await local.run()
    made = plan_of(result.outputs)
    assert made is not None
    assert made.destroys == ("replace module.instance.terraform_data.database (tainted)",)
    assert "not applied" in result.message
    result = await local.run(plan=approved(result))
    assert result.message == "1 added, 0 changed, 1 destroyed"
    assert (await local.run()).message == "nothing to change"


@real
async def test_g_c3_a_run_reports_what_it_holds_and_whether_it_may_be_interrupted(
    local: RealBench,
) -> None:
    await local.run()
    assert local.kept == {}
    names = [name for name, value in local.reports if value]
    assert names[0] == INTERRUPTIBLE
    assert (LOCK_HOLDER, holder()) in local.reports
    stopped = local.reports.index((INTERRUPTIBLE, ""))
    assert (LOCK_HOLDER, holder()) in local.reports[stopped:], "while it applies"


@real
@pytest.mark.xdist_group("terraform-in-cluster")
async def test_g_c3_a_killed_apply_leaves_a_lock_that_is_named_and_given_back(
    local: RealBench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_LOCK", "-lock-timeout=1s")
    async with Environment(tls=True, users=("admin",)) as environment:
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(inline(Path(environment.kubeconfig("admin"))))
        del local.environment["TERRAFORM_STATE_DIR"]
        local.environment["TERRAFORM_STATE_NAMESPACE"] = "default"
        local.environment["KUBE_CONFIG_PATH"] = str(kubeconfig)
        async with local.applies() as running:
            kill_binary(tmp_path)
            with pytest.raises(TaskError, match="apply failed"):
                await running
        assert local.kept[LOCK_HOLDER] == holder(), "it is in the report of the run that failed"
        client = environment.client("admin")
        [lease] = await client.list(LEASE, "default")
        before = lease["spec"]["holderIdentity"]

        with pytest.raises(TaskError, match="Error acquiring the state lock") as refused:
            await asyncio.wait_for(local.run(), 180)
        info = json.loads(refused.value.outputs[LOCK_INFO])
        assert (info["id"], info["who"]) == (before, holder())
        with pytest.raises(TaskError, match="Error acquiring the state lock"):
            await local.run(unlock="another-lock")
        result = await local.run(unlock=before)
        assert "not applied" in result.message or "added" in result.message
        assert (await client.list(LEASE, "default"))[0]["spec"].get("holderIdentity") in (None, "")


def kill_binary(folder: Path) -> None:
    """SIGKILL for the process that applies, and for no other."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
            inside = (process / "cwd").readlink().is_relative_to(folder)
        except OSError:
            continue
        if inside and b"apply" in command:
            os.kill(int(process.name), signal.SIGKILL)


def test_g_c3_taints_are_read_from_plans_and_logs() -> None:
    change = {"actions": ["delete", "create"]}
    tainted = {"address": "a.b", "change": change, "action_reason": "replace_because_tainted"}
    other = {**tainted, "action_reason": "replace_because_cannot_update"}
    gone = {**tainted, "change": {"actions": ["delete"]}}
    plan = {"format_version": "1.2", "resource_changes": [tainted]}
    assert destructions_of(plan) == [Destruction("a.b", True, True)]
    for each in (other, gone):
        [found] = destructions_of({**plan, "resource_changes": [each]})
        assert not found.tainted
    event = {
        "@message": "",
        "type": "planned_change",
        "change": {"resource": {"addr": "a.b"}, "action": "replace", "reason": "tainted"},
    }
    for log in (json.dumps(event).encode(), b"  # a.b is tainted, so must be replaced"):
        assert destructions_in_log(log) == [Destruction("a.b", True, True)]
    assert destructions_in_log(b"  # a.b must be replaced") == [Destruction("a.b", True)]


def test_g_c3_a_lock_is_read_from_the_error() -> None:
    text = """plan failed: Error acquiring the state lock: the state is already locked by another terraform client
Lock Info:
  ID:        3f2a
  Path:
  Operation: OperationTypeApply
  Who:       ada@laptop
  Version:   1.11.4
  Created:   2026-03-01 12:00:01.123456789 +0000 UTC
  Info:
"""
    error = failure(text)
    assert json.loads(error.outputs[LOCK_INFO]) == {
        "id": "3f2a",
        "operation": "OperationTypeApply",
        "who": "ada@laptop",
        "created": "2026-03-01T12:00:01.123456+00:00",
    }
    assert failure("plan failed: no").outputs == {}
