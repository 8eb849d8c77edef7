"""Instances of different types: module and settings of each come from the manager's file."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from apis.cloud import InstanceTerraform, WaitingReason
from ctrlruntime.api import find_condition
from internal.cloud.pace import Pace
from manager.cli import main
from manager.controllers.cloud_options import CloudOptions
from tests.cloud.instance.e2e_harness import E2EHarness
from tests.cloud.instance.harness import InstanceHarness, instance
from tests.cloud.instance.local_harness import local_harness
from tests.cloud.test_plan_command import in_file, run_plan
from tests.support.waiting import eventually

SMALL: dict[str, Any] = {"module": {"source": "./modules/small", "version": "1.0.0"}}
LARGE: dict[str, Any] = {"module": {"source": "./modules/large", "inputs": {"replicas": 3}}}
HCP: dict[str, Any] = {
    "module": {"source": "./modules/large"},
    "organization": "acme",
    "workspace": "${namespace}-${instance}",
}


def typed(name: str, kind: str | None, **fields: object) -> dict[str, Any]:
    terraform = {} if kind is None else {"type": kind}
    return instance(name, infrastructure={"terraform": terraform}, **fields)


def write(path: Path, **types: object) -> None:
    new = path.with_suffix(".new")
    new.write_text(yaml.safe_dump(types))
    new.replace(path)


@pytest.fixture
def types_path(tmp_path: Path) -> Path:
    path = tmp_path / "types.yaml"
    write(path, small=SMALL, large=LARGE, hcp=HCP)
    return path


@pytest.fixture
async def e2e_harness(tmp_path: Path, types_path: Path) -> AsyncIterator[E2EHarness]:
    options = CloudOptions(terraform_types_file=types_path, file_period=0.05)
    async with E2EHarness.start(tmp_path, options=options) as made:
        yield made


def built(e2e_harness: E2EHarness) -> list[tuple[str, str]]:
    """Return instance and module source of each run of Terraform, in order."""
    runs = [item.input for item in e2e_harness.elsewhere.started if item.input.task == "terraform"]
    settings = [(item.instance, item.spec["infrastructure"]["terraform"]) for item in runs]
    return [(name, each.get("module", {}).get("source", "")) for name, each in settings]


async def change_type(e2e_harness: E2EHarness, kind: str | None) -> None:
    await e2e_harness.edit("Instance", {"infrastructure": {"terraform": {"type": kind}}})


@pytest.mark.criterion("TT-MAP")
async def test_instances_of_two_types_are_built_by_two_modules(e2e_harness: E2EHarness) -> None:
    for name, kind in (("src-1", "small"), ("src-2", "large"), ("src-3", None)):
        await e2e_harness.apply(typed(name, kind))
    for name in ("src-1", "src-2", "src-3"):
        await e2e_harness.phase("Ready", name)
    assert sorted(built(e2e_harness)) == [
        ("src-1", "./modules/small"),
        ("src-2", "./modules/large"),
        ("src-3", ""),
    ]
    child = await e2e_harness.read("InstanceTerraform", "src-2")
    assert child.spec.infrastructure.terraform.module.inputs == {"replicas": 3}
    await e2e_harness.idle()
    start = e2e_harness.mark()
    await e2e_harness.stop_manager()
    await e2e_harness.start_manager()
    await e2e_harness.idle()
    assert e2e_harness.writes(start) == []
    assert len(built(e2e_harness)) == 3


@pytest.mark.criterion("TT-UNKNOWN")
async def test_an_unknown_type_is_a_condition_and_goes_once_the_type_is_there(
    e2e_harness: E2EHarness, types_path: Path
) -> None:
    await e2e_harness.apply(typed("src-1", "huge"))
    failed = await e2e_harness.phase("Failed")
    condition = find_condition(failed.status.conditions, "Ready")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "UnknownTerraformType")
    assert "no type 'huge'" in condition.message
    assert "hcp, large, small" in condition.message
    assert await e2e_harness.get("InstanceTerraform") is None
    write(types_path, huge=LARGE)
    await e2e_harness.phase("Ready")
    assert built(e2e_harness) == [("src-1", "./modules/large")]


@pytest.mark.criterion("TT-UNKNOWN")
async def test_a_type_that_is_removed_changes_nothing_that_was_built(
    e2e_harness: E2EHarness, types_path: Path
) -> None:
    await e2e_harness.apply(typed("src-1", "small"))
    await e2e_harness.phase("Ready")
    write(types_path, large=LARGE)
    await e2e_harness.phase("Failed")
    child = await e2e_harness.read("InstanceTerraform")
    assert child.spec.infrastructure.terraform.module.source == "./modules/small"
    assert built(e2e_harness) == [("src-1", "./modules/small")]
    await e2e_harness.delete()
    await e2e_harness.gone("Instance")
    assert e2e_harness.elsewhere.tasks()[-1] == "-terraform", "what is torn down is on record"


@pytest.mark.criterion("TT-FILE")
async def test_a_changed_module_runs_for_the_instances_of_its_type(
    e2e_harness: E2EHarness, types_path: Path
) -> None:
    for name, kind in (("src-1", "small"), ("src-2", "large")):
        await e2e_harness.apply(typed(name, kind))
        await e2e_harness.phase("Ready", name)
    write(types_path, small={"module": {}})
    newer = {"module": {"source": "./modules/small", "version": "1.1.0"}}
    write(types_path, small=newer, large=LARGE)

    def has_newer(found: InstanceTerraform) -> bool:
        settings = found.spec.infrastructure.terraform
        module = None if settings is None else settings.module
        return module is not None and module.version == "1.1.0"

    await e2e_harness.until("InstanceTerraform", has_newer)
    await eventually(lambda: len(built(e2e_harness)) > 2)
    await e2e_harness.phase("Ready")
    await e2e_harness.idle()
    assert built(e2e_harness)[2:] == [("src-1", "./modules/small")]


@pytest.mark.criterion("TT-CHANGE")
async def test_another_type_with_its_state_elsewhere_is_refused_and_can_be_taken_back(
    e2e_harness: E2EHarness,
) -> None:
    await e2e_harness.apply(typed("src-1", "small"))
    await e2e_harness.phase("Ready")
    await change_type(e2e_harness, "hcp")
    failed = await e2e_harness.phase("Failed")
    assert "https://app.terraform.io/acme/default-src-1" in failed.status.message
    assert "take the change of spec.infrastructure.terraform back" in failed.status.message
    child = await e2e_harness.read("InstanceTerraform")
    assert child.spec.infrastructure.terraform.type == "small"
    await e2e_harness.edit("InstanceTerraform", {"domain": "by-hand.example.com"})
    await e2e_harness.idle()
    await change_type(e2e_harness, "small")
    await e2e_harness.phase("Ready")
    assert built(e2e_harness) == [("src-1", "./modules/small")]


@pytest.mark.criterion("TT-CHANGE")
async def test_another_type_is_planned_and_not_applied_while_it_would_replace_something(
    tmp_path: Path, types_path: Path
) -> None:
    protected = {"debug": {"enableDeletionProtection": True}}
    async with local_harness(
        tmp_path,
        environment={"STAND_IN": "replace"},
        terraform_types_file=types_path,
        pace=Pace(waiting=0.5),
    ) as harness:
        await harness.apply(typed("src-1", "small", **protected))
        await harness.until("InstanceTerraform", lambda found: is_phase(found, "Ready"))
        await harness.edit("Instance", {"infrastructure": {"terraform": {"type": "large"}}})
        failed = await harness.until("InstanceTerraform", lambda found: is_phase(found, "Failed"))
        assert "replace module.instance.thing.0. Nothing was applied" in failed.status.message
        await harness.edit("Instance", {"debug": {"enableDeletionProtection": False}})
        await harness.annotate(retry="1")
        waiting = await harness.until("InstanceTerraform", lambda found: is_phase(found, "Waiting"))
        assert waiting.status.waiting.reason is WaitingReason.APPROVAL
        digest = waiting.status.plan.digest
        await harness.annotate(kind="InstanceTerraform", approved_plan=digest)
        await harness.until("InstanceTerraform", lambda found: is_phase(found, "Ready"))


def is_phase(found: InstanceTerraform | None, phase: str) -> bool:
    return found is not None and found.status.phase == phase


@pytest.mark.criterion("TT-PLAN")
async def test_a_plan_has_the_module_of_the_type(
    harness: InstanceHarness, tmp_path: Path, types_path: Path
) -> None:
    changed = in_file(tmp_path, typed("src-1", "small"))
    planned = await run_plan(harness.environment, "-f", changed)
    assert "no type 'small'" in planned.output
    given = ("--terraform-types-file", str(types_path))
    planned = await run_plan(harness.environment, "-f", changed, *given)
    (group,) = planned.groups("InstanceTerraform")
    assert "./modules/small" in json.dumps(group)
    assert "no type" not in planned.output


@pytest.mark.criterion("TT-FILE")
def test_a_file_that_cannot_be_used_ends_the_start(tmp_path: Path) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text("small: {modul: 1}")
    result = CliRunner().invoke(main, ["run", "--terraform-types-file", str(path)])
    assert result.exit_code == 2
    assert "small.modul" in result.output
