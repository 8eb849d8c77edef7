"""`manager top`, `tenant`, `instance list|describe`, `completion`: what a user with a kubeconfig sees."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from apis.cloud import FleetRollout, Instance
from apis.tenancy import Tenant, TenantRegistry
from ctrlruntime.envtest import Environment
from manager.commands.completion import SHELLS
from manager.kinds import KINDS
from tests.docs.blocks import ROOT
from tests.manager_cli.program import Program

pytestmark = pytest.mark.criterion("CLI-VIEWS")


def ready(status: str, since: str = "2026-03-01T00:00:00Z", **more: str) -> list[dict[str, Any]]:
    condition = {"type": "Ready", "status": status, "reason": "Test", "message": ""}
    return [{**condition, "lastTransitionTime": since, "observedGeneration": 1, **more}]


async def put_instance(env: Environment, name: str, phase: str, version: str, since: str) -> None:
    client = env.client("envtest")
    await client.create(
        {
            "apiVersion": Instance.gvk().api_version,
            "kind": "Instance",
            "metadata": {
                "name": name,
                "namespace": "default",
                "labels": {"instance-type": "trial"},
            },
            "spec": {"version": "5.2.0"},
        }
    )
    status = {
        "observedGeneration": 1,
        "phase": phase,
        "version": version,
        "message": f"It is {phase}.",
        "conditions": ready("True" if phase == "Ready" else "False", since, reason=phase),
        "outputs": {"password": "not-to-be-seen"},
        "children": [
            {"kind": "InstanceTerraform", "name": name, "phase": phase, "runID": "terraform-1"}
        ],
        "assignedVersion": {
            "version": "5.3.0",
            "rollout": "monthly",
            "specVersion": "5.2.0",
            "message": "FleetRollout 'monthly' assigned 5.3.0.",
        },
    }
    await client.patch_status(Instance, name, {"status": status}, namespace="default")


async def put_tenant(env: Environment) -> None:
    client = env.client("envtest")
    await client.create(
        {
            "apiVersion": Tenant.gvk().api_version,
            "kind": "Tenant",
            "metadata": {"name": "acme-app", "namespace": "default"},
            "spec": {"uid": "acme", "templateRef": "app", "variables": {"key": "not-to-be-seen"}},
        }
    )
    status = {
        "observedGeneration": 1,
        "desiredResources": 3,
        "readyResources": 1,
        "failedResourceIds": ["web"],
        "skippedResourceIds": ["hook"],
        "appliedResources": ["ConfigMap/default/acme@config", "Deployment.apps/default/acme@web"],
        "conditions": ready("False", reason="ResourcesFailed", message="web failed"),
    }
    await client.patch_status(Tenant, "acme-app", {"status": status}, namespace="default")


@pytest.fixture
async def env() -> AsyncIterator[Environment]:
    async with Environment(users=("admin", "envtest")) as made:
        await made.install_crds(*KINDS)
        await put_instance(made, "src-1", "Ready", "5.3.0", "2026-03-01T00:00:00Z")
        await put_instance(made, "src-2", "Failed", "5.2.0", "2026-03-02T00:00:00Z")
        await put_instance(made, "src-3", "Running", "5.2.0", "2026-02-01T00:00:00Z")
        await put_tenant(made)
        yield made


async def command(env: Environment, *arguments: str, code: int = 0) -> str:
    kubeconfig = str(env.kubeconfig("admin"))
    async with await Program.start(*arguments, "--kubeconfig", kubeconfig) as program:
        assert await program.wait() == code, program.output
        return program.output


async def test_top_counts_states_and_lists_failures_first(env: Environment) -> None:
    whole = json.loads(await command(env, "top", "-o", "json"))
    counts = {(row["kind"], row["version"], row["state"]): row["count"] for row in whole["counts"]}
    assert counts == {
        ("Instance", "5.2.0", "Failed"): 1,
        ("Instance", "5.2.0", "Running"): 1,
        ("Instance", "5.3.0", "Ready"): 1,
        ("Tenant", "", "ResourcesFailed"): 1,
    }
    assert [row["name"] for row in whole["failing"]] == ["acme-app", "src-2"]
    assert [row["name"] for row in whole["waiting"]] == ["src-3"]
    table = await command(env, "top", "-A", "--limit", "1")
    assert "acme-app" in table
    assert "src-3" not in table
    assert "and 2 more" in table


@pytest.mark.criterion("G-T6")
async def test_g_t6_top_lists_a_registry_that_holds_deletions_with_their_names(
    env: Environment,
) -> None:
    source = {"type": "sqlite", "sqlite": {"path": "/x", "table": "t"}}
    await env.client("envtest").create(
        {
            "apiVersion": TenantRegistry.gvk().api_version,
            "kind": "TenantRegistry",
            "metadata": {"name": "rows", "namespace": "default"},
            "spec": {"source": source, "valueMappings": {"uid": "id", "activate": "on"}},
        }
    )
    message = "40 of 50 tenants would go. Held: t1-app and 39 more"
    held = [{**ready("True")[0], "type": "DeletionsHeld", "reason": "EmptyResult"}]
    held[0]["message"] = message
    status = {"observedGeneration": 1, "conditions": ready("True") + held}
    await env.client("envtest").patch_status(
        TenantRegistry, "rows", {"status": status}, namespace="default"
    )
    whole = json.loads(await command(env, "top", "-o", "json"))
    (row,) = (each for each in whole["waiting"] if each["name"] == "rows")
    assert (row["state"], row["message"]) == ("DeletionsHeld", message)
    assert message in await command(env, "top")


async def test_tenant_shows_each_resource_and_no_value(env: Environment) -> None:
    table = await command(env, "tenant", "acme-app")
    assert "ready: 1 of 3" in table
    lines = [line.split()[:2] for line in table.splitlines()]
    assert ["web", "Failed"] in lines
    assert ["hook", "Skipped"] in lines
    assert ["ConfigMap/default/acme@config", "Applied"] in lines
    assert ["Deployment.apps/default/acme@web", "Applied"] not in lines
    assert "not-to-be-seen" not in table
    shown = yaml.safe_load(await command(env, "tenant", "acme-app", "-o", "yaml"))
    assert shown["state"] == "ResourcesFailed"
    assert len(shown["resources"]) == 3


async def test_instance_list_and_describe(env: Environment) -> None:
    table = (await command(env, "instance", "list", "--not-ready")).splitlines()
    assert table[0].split()[:3] == ["NAME", "STATE", "TYPE"]
    assert [line.split()[:5] for line in table[1:]] == [
        ["src-2", "Failed", "trial", "5.2.0", "5.3.0"],
        ["src-3", "Running", "trial", "5.2.0", "5.3.0"],
    ]
    wide = await command(env, "instance", "list", "-A", "-o", "wide")
    assert "monthly" in wide
    described = await command(env, "instance", "describe", "src-2")
    assert "assigned: FleetRollout 'monthly' assigned 5.3.0." in described
    assert "terraform-1" in described
    assert "not-to-be-seen" not in described + await command(
        env, "instance", "describe", "src-2", "-o", "json"
    )


async def test_an_object_that_is_not_there_is_an_error_without_a_traceback(
    env: Environment,
) -> None:
    said = await command(env, "tenant", "nothing", code=1)
    assert "nothing" in said
    assert "Traceback" not in said


@pytest.mark.parametrize("shell", SHELLS)
def test_the_completion_script_calls_the_program(shell: str) -> None:
    script = run("completion", shell)
    assert "_KUBECTL_TENANTS_COMPLETE" in script
    assert "kubectl-tenants" in script


def test_commands_and_their_options_are_completed() -> None:
    found = run(
        environment={
            "_KUBECTL_TENANTS_COMPLETE": "bash_complete",
            "COMP_WORDS": "kubectl-tenants rollout a",
            "COMP_CWORD": "2",
        }
    )
    assert found.split() == ["plain,abort", "plain,approve"]


def run(*arguments: str, environment: dict[str, str] | None = None) -> str:
    """Run the command line under the name of kubectl's plugin; what it printed."""
    program = "from manager.program import main; main('kubectl-tenants')"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=ROOT,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.criterion("U-4")
async def test_u_4_the_namespace_of_the_context_is_the_default(
    env: Environment, tmp_path: Path
) -> None:
    """As kubectl has it: flag, context, default."""
    document = yaml.safe_load(env.kubeconfig("admin").read_text())
    for context in document["contexts"]:
        context["context"]["namespace"] = "production"
    elsewhere = tmp_path / "kubeconfig"
    elsewhere.write_text(yaml.safe_dump(document))
    names = {}
    for place in ((), ("-n", "default")):
        arguments = ("instance", "list", "-o", "json", *place, "--kubeconfig", str(elsewhere))
        async with await Program.start(*arguments) as program:
            assert await program.wait() == 0, program.output
            names[place] = {row["name"] for row in json.loads(program.output)}
    assert names == {(): set(), ("-n", "default"): {"src-1", "src-2", "src-3"}}


@pytest.mark.criterion("U-13")
@pytest.mark.parametrize(
    "arguments",
    [
        "top",
        "instance list",
        "instance describe one",
        "tenant one",
        "rollout status",
        "rollout status one",
    ],
)
async def test_u_13_a_cluster_without_the_crds_gets_a_sentence(
    arguments: str, bare: Environment
) -> None:
    output = await command(bare, *arguments.split(), code=1)
    assert "kubectl apply --server-side -f dist/install.yaml" in output
    assert "Traceback" not in output


@pytest.fixture
async def bare() -> AsyncIterator[Environment]:
    async with Environment(users=("admin",)) as made:
        yield made


@pytest.mark.criterion("U-22")
@pytest.mark.parametrize(("end", "code"), [("Complete", 0), ("Halted", 1)])
async def test_u_22_a_rollout_is_followed_to_its_end(env: Environment, end: str, code: int) -> None:
    client = env.client("envtest")
    await client.create(
        {
            "apiVersion": FleetRollout.gvk().api_version,
            "kind": "FleetRollout",
            "metadata": {"name": "march", "namespace": "default"},
            "spec": {"targetVersion": "5.3.0", "waves": [{"name": "all", "percent": 100}]},
        }
    )

    async def phase(name: str, updated: int) -> None:
        status = {"observedGeneration": 1, "phase": name, "total": 3, "updated": updated}
        await client.patch_status(FleetRollout, "march", {"status": status}, namespace="default")

    await phase("Progressing", 1)
    kubeconfig = str(env.kubeconfig("admin"))
    arguments = (
        "rollout",
        "status",
        "march",
        "--watch",
        "--timeout",
        "60",
        "--kubeconfig",
        kubeconfig,
    )
    async with await Program.start(*arguments) as program:
        await program.prints("Progressing: 1 of 3 updated")
        await phase(end, 3)
        assert await program.wait() == code, program.output
        assert f"{end}: 3 of 3 updated" in program.output
