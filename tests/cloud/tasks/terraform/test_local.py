"""The Terraform task by a binary: a stand-in that keeps to the documented commands, and a real one."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from apis.cloud import PlanApproval, TaskOperation
from internal.cloud.runs import EarlierPlan
from internal.cloud.tasks import TaskError, TaskRejected, TaskResult
from internal.cloud.tasks.task import DRIFT
from internal.cloud.tasks.terraform.local.binary import Ended, local_settings
from internal.cloud.tasks.terraform.task import TerraformTask
from tests.cloud.tasks.workbench import Workbench

STAND_IN = Path(__file__).parent / "stand_in.py"
SPEC: dict[str, Any] = {
    "infrastructure": {
        "terraform": {
            "module": {
                "source": "./none",
                "inputs": {"size": 1},
                "outputs": ["address"],
                "sensitiveOutputs": ["kubeconfig"],
            }
        }
    }
}


def bigger(size: int) -> dict[str, Any]:
    spec: dict[str, Any] = json.loads(json.dumps(SPEC))
    spec["infrastructure"]["terraform"]["module"]["inputs"]["size"] = size
    return spec


class LocalBench:
    """Runs the task with a PATH of its own."""

    def __init__(self, folder: Path, name: str = "terraform") -> None:
        self.binaries = folder / "bin"
        self.states = folder / "states"
        self.mark = folder / "mark"
        self.binaries.mkdir()
        script = f'#!/bin/sh\nexec {sys.executable} -I -S {STAND_IN} "$@"\n'
        (self.binaries / name).write_text(script)
        (self.binaries / name).chmod(0o755)
        self.workbench = Workbench(folder)
        self.environment = {
            "PATH": str(self.binaries),
            "TERRAFORM_STATE_DIR": str(self.states),
            "STAND_IN_MARK": str(self.mark),
            "TASK_SECRETS": "/nowhere",
        }

    async def run(
        self,
        spec: dict[str, Any] | None = None,
        *,
        teardown: bool = False,
        protected: bool | None = None,
        operation: TaskOperation = TaskOperation.APPLY,
        approval: PlanApproval = PlanApproval.AUTOMATIC,
        plan: EarlierPlan | None = None,
        **more: str,
    ) -> TaskResult:
        operation = TaskOperation.TEARDOWN if teardown else operation
        context = self.workbench.context(
            "terraform",
            spec or SPEC,
            kind="InstanceTerraform",
            operation=operation,
            protected=protected,
        )
        given = replace(context.input, approval=approval, plan=plan)
        task = TerraformTask({**self.environment, **more})
        return await task.run(replace(context, input=given))


@pytest.fixture(params=["terraform", "tofu"])
def local(tmp_path: Path, request: pytest.FixtureRequest) -> LocalBench:
    return LocalBench(tmp_path, request.param)


@pytest.fixture
def terraform(tmp_path: Path) -> LocalBench:
    return LocalBench(tmp_path)


async def test_apply_change_and_teardown(local: LocalBench) -> None:
    result = await local.run()
    assert result.message == "2 added, 0 changed, 0 destroyed"
    assert result.outputs == {"address": "<address>"}
    assert result.secret_outputs == {"kubeconfig": "<kubeconfig>"}
    assert (local.states / "prod" / "acme" / "terraform.tfstate").exists()
    said = local.workbench.said
    assert "planned: 2 to add, 0 to change, 0 to destroy" in said
    assert "applying: 1 done, last module.instance.terraform_data.main" in said

    result = await local.run()
    assert result.message == "nothing to change"
    assert result.outputs == {"address": "<address>"}
    assert (await local.run(bigger(2))).message == "0 added, 1 changed, 0 destroyed"

    assert (await local.run(teardown=True)).message == "0 added, 0 changed, 2 destroyed"
    assert not (local.states / "prod" / "acme").exists()
    assert (await local.run(teardown=True)).message == "there is no state (any more)"


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ("init", "terraform init failed: Error: Failed to query available provider packages"),
        ("plan", "terraform plan failed: Invalid value: machine type x is not known"),
        ("apply", "terraform apply failed: Quota exceeded: CPUS in us-central1"),
        ("killed", "terraform plan failed: it was killed by SIGKILL"),
        ("locked", "Error acquiring the state lock: Who: ada@laptop\nCreated: 2026-01-01"),
    ],
)
async def test_what_goes_wrong_is_reported(terraform: LocalBench, wrong: str, says: str) -> None:
    with pytest.raises(TaskError) as caught:
        await terraform.run(STAND_IN=wrong)
    assert says in str(caught.value)
    assert not isinstance(caught.value, TaskRejected)
    assert (await terraform.run()).message == "2 added, 0 changed, 0 destroyed"


async def test_a_line_without_end_is_no_error(terraform: LocalBench) -> None:
    assert (await terraform.run(STAND_IN="long")).message == "2 added, 0 changed, 0 destroyed"


async def test_without_binary_or_place_for_the_state(terraform: LocalBench) -> None:
    with pytest.raises(TaskRejected, match="neither terraform nor tofu is on the PATH"):
        await terraform.run(PATH="/nowhere")
    del terraform.environment["TERRAFORM_STATE_DIR"]
    with pytest.raises(
        TaskRejected,
        match=r"--task-environment TERRAFORM_STATE_DIR=FOLDER or TERRAFORM_STATE_NAMESPACE",
    ):
        await terraform.run()
    with pytest.raises(TaskRejected, match="vcs takes infrastructure"):
        await terraform.run({**SPEC, "tfcRunsMode": "vcs"})


async def test_cancelled_it_interrupts_the_binary_and_waits(terraform: LocalBench) -> None:
    def cancel(doing: str) -> None:
        if "last half" in doing:
            task.cancel()

    context = terraform.workbench.context("terraform", SPEC, kind="InstanceTerraform")
    work = TerraformTask({**terraform.environment, "STAND_IN": "slow"})
    task = asyncio.ensure_future(work.run(replace(context, progress=cancel)))
    with pytest.raises(asyncio.CancelledError):
        await task
    assert terraform.mark.read_text() == "interrupted"


async def test_the_binary_sees_credentials_but_not_the_files_of_the_task(
    terraform: LocalBench,
) -> None:
    spec: dict[str, Any] = json.loads(json.dumps(SPEC))
    settings = spec["infrastructure"]["terraform"]
    settings |= {
        "tokenFrom": {"name": "hcp", "key": "token"},
        "address": "https://tfe.my-org.example",
    }
    terraform.workbench.secrets["hcp", "token"] = "t0ken\n"
    await terraform.run(spec, GOOGLE_CREDENTIALS="given", TASK_RUN_FOLDER="/run")
    seen = json.loads(terraform.mark.read_text())
    assert seen["TF_TOKEN_tfe_my__org_example"] == "t0ken"
    assert seen["GOOGLE_CREDENTIALS"] == "given"
    assert seen["TF_IN_AUTOMATION"] == "1"
    assert [name for name in seen if name.startswith("TASK_")] == ["TASK_RUN_FOLDER"]


@pytest.mark.parametrize("inside", [True, False])
async def test_states_in_the_cluster(terraform: LocalBench, tmp_path: Path, inside: bool) -> None:
    del terraform.environment["TERRAFORM_STATE_DIR"]
    terraform.environment["TERRAFORM_STATE_NAMESPACE"] = "states"
    if inside:
        terraform.environment["KUBERNETES_SERVICE_HOST"] = "10.0.0.1"
    context = terraform.workbench.context("terraform", SPEC, kind="InstanceTerraform")
    with pytest.raises(TaskError):  # the stand-in keeps states in files alone
        await TerraformTask(terraform.environment).run(context)
    document = json.loads((context.folder / "main.tf.json").read_text())
    assert document["terraform"]["backend"] == {
        "kubernetes": {
            "secret_suffix": "prod-acme-02f0b798d2dbc0eb3436",
            "namespace": "states",
            "in_cluster_config": inside,
        }
    }


@pytest.mark.criterion("H-B3")
class TestProtection:
    async def test_h_b3_a_plan_that_replaces_is_refused_with_the_addresses(
        self, local: LocalBench
    ) -> None:
        await local.run()
        before = (local.states / "prod" / "acme" / "terraform.tfstate").read_bytes()
        with pytest.raises(TaskRejected) as caught:
            await local.run(bigger(2), STAND_IN="replace")
        said = str(caught.value)
        assert "1 resources: replace module.instance.thing.0" in said
        assert "set spec.debug.enableDeletionProtection of the Instance to false" in said
        assert "manager instance retry acme" in said
        assert (local.states / "prod" / "acme" / "terraform.tfstate").read_bytes() == before

    async def test_h_b3_what_only_adds_and_changes_is_applied(self, terraform: LocalBench) -> None:
        await terraform.run(protected=True)
        result = await terraform.run(bigger(2), protected=True)
        assert result.message == "0 added, 1 changed, 0 destroyed"

    async def test_h_b3_a_plan_that_cannot_be_read_is_not_applied(
        self, terraform: LocalBench
    ) -> None:
        with pytest.raises(TaskError, match="cannot be read, so it is not applied"):
            await terraform.run(STAND_IN="show")
        assert not (terraform.states / "prod" / "acme" / "terraform.tfstate").exists()

    async def test_h_b3_a_teardown_of_a_protected_instance_is_refused(
        self, terraform: LocalBench
    ) -> None:
        await terraform.run()
        with pytest.raises(TaskRejected, match="deletion protection is on"):
            await terraform.run(teardown=True, protected=True)
        assert (terraform.states / "prod" / "acme" / "terraform.tfstate").exists()


@pytest.mark.criterion("H-B1")
@pytest.mark.parametrize("kept", ["folder", "cluster"])
async def test_h_b1_no_two_instances_share_a_state(tmp_path: Path, kept: str) -> None:
    variables = {"PATH": str(LocalBench(tmp_path).binaries)}
    if kept == "folder":
        variables["TERRAFORM_STATE_DIR"] = str(tmp_path)
    else:
        variables["TERRAFORM_STATE_NAMESPACE"] = "states"
    pairs = [("a-b", "c"), ("a", "b-c"), ("a", "b.c"), ("a.b", "c")]
    backends = [json.dumps(dict(local_settings(variables, *pair).backend)) for pair in pairs]
    assert len(set(backends)) == len(pairs)


MODULE = """
variable "instance_name" { type = string }
variable "size" { type = number }
variable "note" { type = string }
variable "instance_features" { type = map(string) }
resource "terraform_data" "main" {
  count            = var.size
  input            = var.instance_name
  triggers_replace = [var.note]
}
output "address" { value = "${var.instance_name}.example" }
output "features" { value = var.instance_features }
output "note" { value = var.note }
output "kubeconfig" {
  value     = "secret of ${var.instance_name}"
  sensitive = true
}
"""
REAL = [name for name in ("terraform", "tofu") if shutil.which(name)]


def real_spec(module: Path, size: int) -> dict[str, Any]:
    inputs = {"size": size, "note": "literal ${path.module} %{if true}"}
    settings = {
        "source": str(module),
        "inputs": inputs,
        "outputs": ["address", "features", "note"],
        "sensitiveOutputs": ["kubeconfig"],
    }
    return {
        "infrastructure": {"terraform": {"module": settings}},
        "instanceFeatures": {"a.${b}": "c"},
    }


def real_bench(tmp_path: Path, name: str) -> tuple[LocalBench, Path]:
    """A bench with a real binary, and a folder with a module."""
    module = tmp_path / "module"
    module.mkdir()
    (module / "main.tf").write_text(MODULE)
    local = LocalBench(tmp_path)
    (local.binaries / "terraform").unlink()
    real = shutil.which(name)
    assert real is not None
    (local.binaries / name).symlink_to(real)
    local.environment["HOME"] = os.environ.get("HOME", "/")
    local.environment["PATH"] = f"{local.binaries}:/usr/bin:/bin"
    return local, module


@pytest.mark.skipif(not REAL, reason="neither terraform nor tofu is installed")
@pytest.mark.parametrize("name", REAL)
async def test_a_real_binary(tmp_path: Path, name: str) -> None:
    local, module = real_bench(tmp_path, name)
    result = await local.run(real_spec(module, 2))
    assert result.message == "2 added, 0 changed, 0 destroyed"
    assert result.outputs == {
        "address": "acme.example",
        "features": '{"a.${b}":"c"}',
        "note": "literal ${path.module} %{if true}",
    }
    assert result.secret_outputs == {"kubeconfig": "secret of acme"}
    assert (await local.run(real_spec(module, 2))).message == "nothing to change"
    assert (await local.run(real_spec(module, 3))).message == "1 added, 0 changed, 0 destroyed"
    with pytest.raises(TaskRejected) as caught:
        await local.run(real_spec(module, 1))
    addresses = [f"destroy module.instance.terraform_data.main[{number}]" for number in (1, 2)]
    assert f"2 resources: {', '.join(addresses)}." in str(caught.value)
    changed = real_spec(module, 3)
    changed["infrastructure"]["terraform"]["module"]["inputs"]["note"] = "another"
    with pytest.raises(
        TaskRejected, match=r"3 resources: replace module\.instance\.terraform_data"
    ):
        await local.run(changed)
    assert (await local.run(real_spec(module, 3))).message == "nothing to change"
    with pytest.raises(TaskError, match=r"plan failed: .*var\.size"):
        await local.run(real_spec(module, "many"))  # type: ignore[arg-type]
    assert (await local.run(real_spec(module, 3), teardown=True)).message == (
        "0 added, 0 changed, 3 destroyed"
    )


@pytest.mark.skipif(not REAL, reason="neither terraform nor tofu is installed")
async def test_the_kubeconfig_of_a_plain_cluster_is_valid_for_a_real_binary(tmp_path: Path) -> None:
    from apis.cloud import InstanceTerraformSpec
    from internal.cloud.tasks.terraform.configuration import configuration

    gcp = {"zone": "us-central1-f", "gke": {"blue": {"machineType": "e2-small"}}}
    spec = InstanceTerraformSpec.model_validate({"infrastructure": {"gcp": gcp, "terraform": {}}})
    output = configuration("prod", "acme", spec, {}).document["output"]["kubeconfig"]
    output["value"] = output["value"].replace("google_container_cluster.blue", "local.blue")
    blue = {"endpoint": "1.2.3.4", "master_auth": [{"cluster_ca_certificate": "Q0E="}]}
    document = {"locals": {"blue": blue}, "output": {"kubeconfig": output}}
    (tmp_path / "main.tf.json").write_text(json.dumps(document))

    async def run(*arguments: str) -> bytes:
        process = await asyncio.create_subprocess_exec(
            REAL[0], *arguments, cwd=tmp_path, stdout=asyncio.subprocess.PIPE
        )
        found, _ = await process.communicate()
        assert process.returncode == 0
        return found

    await run("init", "-input=false")
    await run("apply", "-auto-approve", "-input=false")
    kubeconfig = json.loads(await run("output", "-raw", "kubeconfig"))
    assert kubeconfig["clusters"][0]["cluster"]["server"] == "https://1.2.3.4"
    assert kubeconfig["users"][0]["user"]["exec"]["command"] == "gke-gcloud-auth-plugin"


@pytest.mark.criterion("ISSUE15-8-TERRAFORM-DRIFT")
async def test_a_plan_for_drift_applies_nothing(local: LocalBench) -> None:
    await local.run()
    same = await local.run(operation=TaskOperation.PLAN)
    assert (same.message, same.outputs) == ("nothing differs", {DRIFT: ""})
    state = local.states / "prod" / "acme" / "terraform.tfstate"
    before = state.read_text()
    found = await local.run(bigger(2), operation=TaskOperation.PLAN)
    assert found.outputs[DRIFT] == "0 to add, 1 to change, 0 to destroy"
    assert found.secret_outputs == {}
    assert state.read_text() == before


async def test_a_repair_applies_what_differs(local: LocalBench) -> None:
    await local.run()
    same = await local.run(operation=TaskOperation.REPAIR)
    assert same.outputs == {DRIFT: ""}
    found = await local.run(bigger(2), operation=TaskOperation.REPAIR)
    assert found.message == "0 added, 1 changed, 0 destroyed"
    assert found.outputs == {"address": "<address>"}
    assert (await local.run(bigger(2))).message == "nothing to change"


async def test_a_repair_that_destroys_is_only_reported_under_protection(
    terraform: LocalBench,
) -> None:
    await terraform.run()
    state = terraform.states / "prod" / "acme" / "terraform.tfstate"
    before = state.read_text()
    found = await terraform.run(
        bigger(2), operation=TaskOperation.REPAIR, protected=True, STAND_IN="replace"
    )
    assert found.outputs == {DRIFT: "0 to add, 1 to change, 0 to destroy"}
    assert state.read_text() == before


async def test_a_repair_whose_plan_cannot_be_read_is_not_applied(terraform: LocalBench) -> None:
    await terraform.run()
    with pytest.raises(TaskError, match="cannot be read"):
        await terraform.run(
            bigger(2), operation=TaskOperation.REPAIR, protected=False, STAND_IN="show"
        )


@pytest.mark.criterion("C-13")
def test_c_13_the_message_of_a_failed_command_is_its_error() -> None:
    said = [
        "Initializing the backend...",
        "",
        "\u2577",
        "\u2502 Error: Failed to query",
        "\u2502 ",
        "\u2502 no route.",
        "\u2575",
    ]
    assert Ended(1, said).error == "Error: Failed to query no route."
    assert Ended(1, ["no such command"]).error == "no such command"
