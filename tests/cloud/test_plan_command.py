"""`manager plan` of a FleetRollout and of an Instance: what it prints is what the manager then does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from apis.cloud import FleetRollout
from apis.operations import ChangeFreeze
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.proxy import Fail, Match
from tests.cloud.instance.harness import KINDS, InstanceHarness
from tests.cloud.instance.harness import instance as one_instance
from tests.cloud.rollouts.harness import NAMESPACE, NEW, OLD, Fleet
from tests.manager_cli.program import Program

pytestmark = pytest.mark.criterion("PLAN-CLOUD")

WAVES = [{"name": "early", "percent": 25}, {"name": "all", "approval": "Manual"}]


@dataclass(frozen=True)
class Planned:
    """What a run of the command printed."""

    code: int
    output: str
    made: dict[str, Any] = field(default_factory=dict)

    def groups(self, kind: str) -> list[dict[str, Any]]:
        """The groups of a kind."""
        return [g for g in self.made["groups"] if g["kind"].startswith(f"{kind}.")]


async def run_plan(environment: Environment, *arguments: str, output: str = "json") -> Planned:
    """Run the command as an administrator, whose requests are all its own."""
    kubeconfig = str(environment.kubeconfig("admin"))
    command = ["plan", "--kubeconfig", kubeconfig, "-n", NAMESPACE, "-o", output, *arguments]
    async with await Program.start(*command) as program:
        code = await program.wait()
        made = json.loads(program.output) if output == "json" and code < 2 else {}
        return Planned(code, program.output, made)


async def snapshot(environment: Environment) -> dict[tuple[str, str], str]:
    """The resourceVersion of every object by kind and name."""
    found: dict[tuple[str, str], str] = {}
    for kind in KINDS:
        for item in await environment.client("envtest").list(kind, NAMESPACE):
            name = item.metadata.name or ""
            found[kind.__name__, name] = item.metadata.resource_version or ""
    return found


def in_file(folder: Path, manifest: Mapping[str, Any]) -> str:
    path = folder / "changed.yaml"
    path.write_text(yaml.safe_dump(dict(manifest)))
    return str(path)


def rollout(**spec: object) -> dict[str, Any]:
    return {
        "apiVersion": FleetRollout.gvk().api_version,
        "kind": "FleetRollout",
        "metadata": {"name": "release"},
        "spec": {"targetVersion": NEW, **spec},
    }


# -- FleetRollouts --------------------------------------------------------------------------------


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with Fleet.start(tmp_path) as made:
        yield made


async def test_a_rollout_in_a_file_shows_each_wave_and_what_each_instance_is_given(
    fleet: Fleet, tmp_path: Path
) -> None:
    await fleet.create_instances(8)
    before = await snapshot(fleet.environment)
    planned = await run_plan(fleet.environment, "-f", in_file(tmp_path, rollout(waves=WAVES)))
    assert planned.code == 1, planned.output
    assert (planned.made["fleetRollout"], planned.made["instances"]) == ("release", 8)
    changes = {g["reason"]: (g["count"], g["changes"]) for g in planned.groups("Instance")}
    assigned = {
        "path": "status.assignedVersion.version",
        "before": OLD,
        "after": NEW,
        "restored": False,
    }
    assert changes == {"wave early": (2, [assigned]), "wave all": (6, [assigned])}
    (upgrades,) = planned.groups("UpgradeInstanceTask")
    assert (upgrades["verb"], upgrades["count"]) == ("create", 8)
    spec = upgrades["changes"][0]["after"]["spec"]
    assert (spec["fromVersion"], spec["toVersion"]) == (OLD, NEW)
    assert all(group["confirmed"] for group in planned.made["groups"]), planned.output
    assert "wave early: 2 instances" in planned.made["notes"]
    assert "wave all: 6 instances once it is approved" in planned.made["notes"]
    assert await snapshot(fleet.environment) == before
    assert set((await fleet.versions()).values()) == {OLD}


async def test_the_first_wave_of_the_plan_is_the_one_that_is_rolled_out(
    fleet: Fleet, tmp_path: Path
) -> None:
    await fleet.create_instances(8)
    planned = await run_plan(fleet.environment, "-f", in_file(tmp_path, rollout(waves=WAVES)))
    (early,) = (g for g in planned.groups("Instance") if g["reason"] == "wave early")
    await fleet.roll_out(waves=WAVES)
    await fleet.reaches("WaitingForApproval", updated=2)
    changed = {name for name, version in (await fleet.versions()).items() if version == NEW}
    assert changed == {member["name"] for member in early["members"]}
    rest = await run_plan(fleet.environment, "--rollout", "release")
    (late,) = rest.groups("Instance")
    assert (late["reason"], late["count"]) == ("wave all", 6)
    assert changed.isdisjoint(member["name"] for member in late["members"])


async def test_instances_that_a_rollout_does_not_change_are_held_with_the_reason(
    fleet: Fleet, tmp_path: Path
) -> None:
    await fleet.create_instances(2)
    await fleet.create_instances(1, "trial", releaseChannel="insiders")
    await fleet.create_instances(1, "internal", version="5.4.0")
    planned = await run_plan(fleet.environment, "-f", in_file(tmp_path, rollout()))
    held = {tuple(item["instances"]): item["message"] for item in planned.made["held"]}
    assert held == {
        ("trial-0",): "skipped: its release channel is insiders",
        ("internal-0",): "skipped: it has 5.4.0, which is newer: downgrade it by its spec",
    }
    assert [g["count"] for g in planned.groups("Instance")] == [2]


async def test_a_halted_rollout_with_rollback_shows_only_what_returns(fleet: Fleet) -> None:
    await fleet.create_instances(4)
    await fleet.roll_out(waves=WAVES)
    await fleet.reaches("WaitingForApproval", updated=1)
    await fleet.stop_manager()
    await fleet.roll_out(waves=WAVES, action="Undo")
    planned = await run_plan(fleet.environment, "--rollout", "release")
    (back,) = planned.groups("Instance")
    assert (back["reason"], back["count"]) == ("rollback", 1)
    assert (back["changes"][0]["before"], back["changes"][0]["after"]) == (NEW, OLD)
    assert any("an undo was requested" in note for note in planned.made["notes"])


async def test_a_freeze_and_a_pause_are_noted(fleet: Fleet, tmp_path: Path) -> None:
    await fleet.create_instances(1)
    freeze = {
        "apiVersion": ChangeFreeze.gvk().api_version,
        "kind": "ChangeFreeze",
        "metadata": {"name": "year-end"},
        "spec": {"reason": "Year-end closing"},
    }
    await fleet.client.create(freeze)
    path = in_file(tmp_path, rollout(pause=True))
    planned = await run_plan(fleet.environment, "-f", path, output="text")
    assert "Note: it is paused: nothing is changed until it is resumed" in planned.output
    assert "Note: changes wait:" in planned.output
    assert "year-end" in planned.output
    assert "FleetRollout default/release: 1 instance" in planned.output


async def test_without_the_right_to_list_freezes_the_plan_notes_it_at_once(
    fleet: Fleet, tmp_path: Path
) -> None:
    await fleet.create_instances(1)
    resource = "changefreezes.operations.ctrlruntime.dev"
    fault = Fail(code=403, reason="Forbidden")
    fleet.environment.proxy.add(fault, Match(user="admin", resource=resource), times=None)
    async with asyncio.timeout(60):
        planned = await run_plan(fleet.environment, "-f", in_file(tmp_path, rollout()))
    assert planned.code == 1, planned.output
    assert planned.groups("Instance")
    (note,) = [each for each in planned.made["notes"] if "ChangeFreeze" in each]
    assert note.startswith("ChangeFreezes could not be read")
    assert f"the right to list {resource}" in note


async def test_a_rollout_that_cannot_be_used_is_no_plan(fleet: Fleet, tmp_path: Path) -> None:
    path = in_file(tmp_path, rollout(startAt="nothing"))
    planned = await run_plan(fleet.environment, "-f", path, output="text")
    assert planned.code == 2
    assert "spec.startAt" in planned.output
    missing = await run_plan(fleet.environment, "--rollout", "nothing", output="text")
    assert missing.code == 2
    assert "there is no FleetRollout 'nothing'" in missing.output
    both = await run_plan(fleet.environment, "-f", path, "--rollout", "release", output="text")
    assert both.code == 2
    assert "give one of" in both.output


# -- Instances ------------------------------------------------------------------------------------


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[InstanceHarness]:
    async with InstanceHarness.start(tmp_path) as made:
        yield made


async def test_an_unchanged_instance_is_no_change(harness: InstanceHarness, tmp_path: Path) -> None:
    await harness.apply(one_instance())
    await harness.roll_out()
    await harness.idle()
    before = await snapshot(harness.environment)
    planned = await run_plan(harness.environment, "-f", in_file(tmp_path, one_instance()))
    assert planned.code == 0, planned.output
    assert planned.made["groups"] == []
    again = await run_plan(harness.environment, "--instance", "src-1", output="text")
    assert (again.code, again.output.splitlines()[-1]) == (0, "No changes.")
    assert await snapshot(harness.environment) == before


async def test_a_new_version_is_an_upgrade_and_a_workload_of_the_new_version(
    harness: InstanceHarness, tmp_path: Path
) -> None:
    await harness.apply(one_instance())
    await harness.carry_out("InstanceTerraform", outputs={"project": "p-1"})
    ready = await harness.roll_out()
    assert ready.status.version == "5.1.0"
    changed = one_instance(version="5.2.0")
    planned = await run_plan(harness.environment, "-f", in_file(tmp_path, changed))
    assert planned.code == 1, planned.output
    verbs = {(g["verb"], g["kind"].partition(".")[0]) for g in planned.made["groups"]}
    assert verbs == {
        ("update", "Instance"),
        ("create", "UpgradeInstanceTask"),
        ("update", "InstanceKubernetes"),
        ("update", "InstanceInvariants"),
    }
    (workload,) = planned.groups("InstanceKubernetes")
    assert [(c["path"], c["before"], c["after"]) for c in workload["changes"]] == [
        ("spec.version", "5.1.0", "5.2.0")
    ]
    assert all(group["confirmed"] for group in planned.made["groups"]), planned.output
    (upgrade,) = planned.groups("UpgradeInstanceTask")
    await harness.apply(changed)
    made = await harness.upgrade("5.2.0")
    assert made == upgrade["members"][0]["name"]
    before = await harness.read("InstanceTerraform")
    await harness.carry_out("UpgradeInstanceTask", made)
    workload_now = await harness.until("InstanceKubernetes", lambda k: k.spec.version == "5.2.0")
    assert workload_now.spec.outputs == {"project": "p-1"}
    after = await harness.read("InstanceTerraform")
    assert before.metadata.generation == after.metadata.generation


async def test_a_new_instance_shows_all_that_is_created(
    harness: InstanceHarness, tmp_path: Path
) -> None:
    planned = await run_plan(harness.environment, "-f", in_file(tmp_path, one_instance("new-1")))
    kinds = [g["kind"].partition(".")[0] for g in planned.made["groups"]]
    assert {g["verb"] for g in planned.made["groups"]} == {"create"}
    assert {"Instance", "InstanceTerraform", "InstanceKubernetes", "InstanceInvariants"} == {*kinds}
    assert all(group["confirmed"] for group in planned.made["groups"]), planned.output
    assert await harness.get("Instance", "new-1") is None


async def test_infrastructure_that_is_no_longer_wanted_is_deleted_or_fails_if_protected(
    harness: InstanceHarness, tmp_path: Path
) -> None:
    await harness.apply(one_instance())
    await harness.roll_out()
    without = one_instance(infrastructure={})
    planned = await run_plan(harness.environment, "-f", in_file(tmp_path, without))
    (gone,) = planned.groups("InstanceTerraform")
    assert (gone["verb"], gone["count"]) == ("delete", 1)
    protected = one_instance(infrastructure={}, debug={"enableDeletionProtection": True})
    planned = await run_plan(harness.environment, "-f", in_file(tmp_path, protected))
    assert planned.groups("InstanceTerraform") == []
    (failing,) = planned.made["failures"]
    assert "no longer has InstanceTerraform" in failing["message"]


async def test_a_paused_instance_is_held(harness: InstanceHarness, tmp_path: Path) -> None:
    await harness.apply(one_instance())
    await harness.roll_out()
    await harness.annotate(paused="true")
    changed = in_file(tmp_path, one_instance(version="5.2.0"))
    planned = await run_plan(harness.environment, "-f", changed)
    assert [item["message"] for item in planned.made["held"]] == ["it is paused"]
    assert [g["kind"].partition(".")[0] for g in planned.made["groups"]] == ["Instance"]
    markdown = await run_plan(harness.environment, "-f", changed, output="markdown")
    assert "### Plan of Instance default/src-1" in markdown.output
    assert '- spec.version: "5.1.0"' in markdown.output
