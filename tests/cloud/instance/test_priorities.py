"""Security patches overtake the upgrades that wait: instances, rollouts and runs with the real controllers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from apis.cloud import FleetRollout, Instance, Phase, TaskPriority, UpgradeInstanceTask
from ctrlruntime.envtest.eventually import eventually_holds
from internal.cloud.pace import Pace
from manager.commands.instance_views import instance_row
from manager.controllers.cloud_options import CloudOptions
from tests.cloud.instance.e2e_harness import E2EHarness
from tests.cloud.instance.harness import NAMESPACE, instance
from tests.support.waiting import eventually

NAMES = ("src-1", "src-2", "src-3")
PATCHED = "src-9"


@pytest.fixture
async def e2e_harness(tmp_path: Path) -> AsyncIterator[E2EHarness]:
    options = CloudOptions(limits={"upgrade": 1}, pace=Pace(waiting=0.5))
    async with E2EHarness.start(tmp_path, options=options) as made:
        await made.environment.install_crds(FleetRollout)
        for name in (*NAMES, PATCHED):
            manifest = instance(name, infrastructure={})
            manifest["metadata"]["labels"]["patch"] = str(name == PATCHED).lower()
            await made.apply(manifest)
        for name in (*NAMES, PATCHED):
            await made.phase("Ready", name)
        made.elsewhere.held.add("upgrade")
        await made.edit("Instance", {"version": "5.2.0"}, NAMES[0])
        await upgrade_in(made, NAMES[0], Phase.RUNNING)
        for name in NAMES[1:]:
            await made.edit("Instance", {"version": "5.2.0"}, name)
            await upgrade_in(made, name, Phase.WAITING)
        yield made


async def upgrade_in(harness: E2EHarness, name: str, phase: Phase, priority: str = "") -> None:
    """Wait until the upgrade of an instance is in a phase, with a priority in what it waits for."""

    async def holds() -> bool:
        found = [item for item in await harness.upgrades() if item.spec.instance_name == name]
        return any(item.status.phase is phase and priority_of(item) == priority for item in found)

    try:
        await eventually(holds)
    except AssertionError as error:
        shown = [item.to_manifest() for item in await harness.upgrades()]
        raise AssertionError(f"{name} is not {phase} with {priority!r}: {shown}") from error


def priority_of(upgrade: UpgradeInstanceTask) -> str:
    waiting = upgrade.status.waiting
    return "" if waiting is None or waiting.priority is None else waiting.priority.value


async def patch_rollout(harness: E2EHarness, **spec: object) -> None:
    """Roll version 5.1.1 out to the instance that is to be patched."""
    manifest = {
        "apiVersion": FleetRollout.gvk().api_version,
        "kind": "FleetRollout",
        "metadata": {"name": "patch", "namespace": NAMESPACE},
        "spec": {"targetVersion": "5.1.1", "selector": {"patch": "true"}, **spec},
    }
    await harness.client.apply(manifest, field_manager="people", force=True)


def upgraded(harness: E2EHarness) -> list[str]:
    """Return the instances whose upgrades started, in order."""
    started = [item.input for item in harness.elsewhere.started if item.input.task == "upgrade"]
    return [item.instance for item in started]


async def upgrade_all(harness: E2EHarness) -> list[str]:
    """Let upgrades end, and return the order in which all of them started."""
    harness.elsewhere.end("upgrade")
    for name in (*NAMES, PATCHED):
        await harness.phase("Ready", name)
    return upgraded(harness)


def gauge(registry: CollectorRegistry, priority: TaskPriority) -> float | None:
    labels = {"task": "upgrade", "priority": priority.value}
    return registry.get_sample_value("cloud_task_waiting_by_priority", labels)


@pytest.mark.criterion("CP-OVERTAKE")
async def test_a_rollout_of_a_patch_overtakes_upgrades_that_wait(e2e_harness: E2EHarness) -> None:
    await patch_rollout(e2e_harness, priority="High")
    await upgrade_in(e2e_harness, PATCHED, Phase.WAITING, "High")

    def shown(found: Instance) -> bool:
        return found.status.waiting is not None and found.status.waiting.priority is not None

    found = await e2e_harness.until("Instance", shown, PATCHED)
    assert isinstance(found, Instance)
    row = instance_row(found)
    assert (row["waiting"], row["priority"]) == ("Limit", "High")
    assert e2e_harness.manager is not None
    registry = e2e_harness.manager.metrics.registry
    await eventually_holds(lambda: gauge(registry, TaskPriority.HIGH) == 1, timeout=60.0)
    assert gauge(registry, TaskPriority.NORMAL) == 2
    assert upgraded(e2e_harness) == [NAMES[0]], "what runs is not interrupted"
    assert await upgrade_all(e2e_harness) == [NAMES[0], PATCHED, *NAMES[1:]]
    ends = [e2e_harness.elsewhere.runs[run_id].state.value for run_id in e2e_harness.elsewhere.runs]
    assert "Cancelled" not in ends
    assert gauge(registry, TaskPriority.HIGH) == 0


@pytest.mark.criterion("CP-RESTART")
async def test_the_order_is_the_same_after_a_restart(e2e_harness: E2EHarness) -> None:
    await patch_rollout(e2e_harness, priority="High")
    await upgrade_in(e2e_harness, PATCHED, Phase.WAITING, "High")
    await e2e_harness.stop_manager()
    await e2e_harness.start_manager()
    await e2e_harness.idle()
    assert upgraded(e2e_harness) == [NAMES[0]]
    assert await upgrade_all(e2e_harness) == [NAMES[0], PATCHED, *NAMES[1:]]


@pytest.mark.criterion("CP-CHANGE")
async def test_a_rollout_that_waits_already_can_be_given_a_priority(
    e2e_harness: E2EHarness,
) -> None:
    await patch_rollout(e2e_harness)
    await upgrade_in(e2e_harness, PATCHED, Phase.WAITING)
    await patch_rollout(e2e_harness, priority="High")
    await upgrade_in(e2e_harness, PATCHED, Phase.WAITING, "High")
    await patch_rollout(e2e_harness, priority="Low")
    await upgrade_in(e2e_harness, PATCHED, Phase.WAITING, "Low")
    assert await upgrade_all(e2e_harness) == [NAMES[0], *NAMES[1:], PATCHED]


@pytest.mark.criterion("CP-SPEC")
async def test_the_priority_of_an_instance_counts_for_its_own_changes(
    e2e_harness: E2EHarness,
) -> None:
    await e2e_harness.edit("Instance", {"priority": "High"}, NAMES[2])
    await upgrade_in(e2e_harness, NAMES[2], Phase.WAITING, "High")
    assert await upgrade_all(e2e_harness) == [NAMES[0], NAMES[2], NAMES[1]]
    tasks = e2e_harness.elsewhere.tasks()
    await e2e_harness.edit("Instance", {"priority": None}, NAMES[2])
    await e2e_harness.idle()
    assert e2e_harness.elsewhere.tasks() == tasks, "a priority is no input of a task"
