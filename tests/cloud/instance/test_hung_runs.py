"""A run that hangs is interrupted with its own cancel: the whole system with processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apis.cloud import TaskRun
from ctrlruntime.api import Resource
from internal.cloud.pace import Pace
from manager.controllers.cloud_options import CloudOptions
from tests.cloud.instance.e2e_harness import E2EHarness
from tests.cloud.instance.harness import instance
from tests.cloud.instance.local_harness import LocalHarness, local_harness
from tests.cloud.run_processes import processes_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.criterion("H-B9")

PACE = Pace(interrupt=0.5)
SLOW = {"STAND_IN": "slow"}
TERRAFORM = {"terraform": {"module": {"source": "./none"}}}


async def hangs(harness: LocalHarness, folder: Path) -> Resource[Any, Any]:
    """The InstanceTerraform, once its binary applies and goes on doing so."""
    await harness.apply(instance(infrastructure=TERRAFORM))
    await eventually(
        lambda: any("half" in path.read_text() for path in folder.glob("runs/*/*/result"))
    )
    return await harness.there("InstanceTerraform")


def run_of(found: Resource[Any, Any], run_id: str) -> TaskRun | None:
    runs: list[TaskRun | None] = [found.status.run, *found.status.history]
    return next((run for run in runs if run is not None and run.run_id == run_id), None)


async def test_h_b9_a_hung_terraform_is_interrupted_gracefully(tmp_path: Path) -> None:
    async with local_harness(tmp_path, pace=PACE, environment=SLOW) as harness:
        before = (await hangs(harness, tmp_path)).status.run
        await harness.annotate(retry="now")

        def ended(found: Resource[Any, Any]) -> bool:
            run = run_of(found, before.run_id)
            return run is not None and run.state == "Done"

        found = await harness.until("InstanceTerraform", ended, timeout=120)
        ended_run = run_of(found, before.run_id)
        assert ended_run is not None
        assert ended_run.outcome == "Cancelled"
        [log] = [path.read_text() for path in logs_of(tmp_path, before.run_id)]
        assert "cancelled" in log, "the task ended in good order, after its binary"
        await harness.until(
            "InstanceTerraform", lambda found: found.status.run.run_id != before.run_id, timeout=60
        )


@pytest.mark.criterion("G-C3")
async def test_g_c3_newer_inputs_wait_for_an_apply(tmp_path: Path) -> None:
    async with local_harness(tmp_path, pace=PACE, environment=SLOW) as harness:
        before = (await hangs(harness, tmp_path)).status.run
        await harness.edit("Instance", {"domain": "new.example.com"})
        found = await harness.until(
            "InstanceTerraform", lambda found: "may be applying" in found.status.message
        )
        await harness.idle()
        found = await harness.read("InstanceTerraform")
        assert (found.status.run.run_id, found.status.run.interrupt_at) == (before.run_id, None)
        assert not (tmp_path / "mark").read_text().startswith("interrupted")
        kind = "InstanceTerraform"
        await harness.annotate(kind=kind, cancel=before.run_id)

        def ended(found: Resource[Any, Any]) -> bool:
            run = run_of(found, before.run_id)
            return run is not None and run.outcome == "Cancelled"

        await harness.until(kind, ended, timeout=120)


async def test_h_b9_a_deletion_interrupts_and_then_tears_down(tmp_path: Path) -> None:
    async with local_harness(tmp_path, pace=PACE, environment=SLOW) as harness:
        before = (await hangs(harness, tmp_path)).status.run
        await harness.delete()
        await harness.gone("Instance", timeout=120)
        assert not logs_of(tmp_path, before.run_id), "its folder is gone"


async def test_a_run_outlives_its_manager_but_not_its_stage(tmp_path: Path) -> None:
    async with local_harness(tmp_path, environment=SLOW) as harness:
        await hangs(harness, tmp_path)
        await harness.stop_manager()
        commands = list(processes_of(tmp_path).values())
        assert len(commands) == 3, commands  # supervisor, task, binary
    assert not processes_of(tmp_path)


async def test_h_b9_a_hung_upgrade_is_interrupted_when_another_version_is_wanted(
    tmp_path: Path,
) -> None:
    async with E2EHarness.start(tmp_path, options=CloudOptions(pace=PACE)) as e2e_harness:
        await e2e_harness.apply(instance())
        await e2e_harness.phase("Ready")
        e2e_harness.elsewhere.held.add("upgrade")
        await e2e_harness.edit("Instance", {"version": "5.2.0"})
        await e2e_harness.until("Instance", lambda found: found.status.task.startswith("upgrade-"))
        name = await e2e_harness.upgrade("5.2.0")
        await e2e_harness.until(
            "UpgradeInstanceTask",
            lambda found: found.status.run is not None and found.status.run.state == "Started",
            name,
        )
        e2e_harness.elsewhere.held.clear()  # the run goes on; later ones end at once
        await e2e_harness.edit("Instance", {"version": "5.3.0"})
        ready = await e2e_harness.until(
            "Instance", lambda found: found.status.version == "5.3.0", timeout=120
        )
        assert ready.spec.wanted_version == "5.3.0"
        before = (await e2e_harness.there("UpgradeInstanceTask", name)).status
        assert before.run.outcome == "Cancelled"
        assert before.phase == "Superseded"
        assert [task for task in e2e_harness.elsewhere.tasks() if task == "upgrade"] == [
            "upgrade"
        ] * 2


@pytest.mark.criterion("C-4")
@pytest.mark.parametrize(
    ("task", "spec"),
    [
        ("upgrade", {"version": "5.2.0"}),
        ("terraform", {"domain": "new.example.com"}),
        ("kubernetes", {"domain": "new.example.com"}),
    ],
)
async def test_c_4_a_deletion_interrupts_a_hung_run_anywhere_in_the_chain(
    tmp_path: Path, task: str, spec: dict[str, Any]
) -> None:
    async with E2EHarness.start(tmp_path, options=CloudOptions(pace=PACE)) as harness:
        await harness.apply(instance(infrastructure=TERRAFORM))
        await harness.phase("Ready")
        before = len(harness.elsewhere.started)
        harness.elsewhere.held.add(task)
        await harness.edit("Instance", spec)
        await eventually(lambda: task in harness.elsewhere.tasks()[before:])
        started = harness.elsewhere.tasks()
        harness.elsewhere.held.clear()  # only that run hangs
        await harness.delete()
        await harness.gone("Instance", timeout=60)
        teardown = ["-invariants", "-kubernetes", "-terraform"]
        assert harness.elsewhere.tasks() == [*started, *teardown], "nothing else was begun"


def logs_of(folder: Path, run_id: str) -> list[Path]:
    return list(folder.glob(f"runs/*/{run_id}/log"))
