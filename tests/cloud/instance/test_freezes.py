"""A ChangeFreeze, or a closed maintenance window, holds runs that change or destroy what an instance has."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apis.cloud import Instance, Waiting
from apis.operations import ChangeFreeze
from ctrlruntime.api import Resource, find_condition
from ctrlruntime.envtest.proxy import LogEntry, Mark
from tests.cloud.instance.e2e_harness import Theatre
from tests.cloud.instance.harness import instance
from tests.support.freezes import freeze_until, frozen
from tests.support.waiting import eventually

pytestmark = pytest.mark.criterion("RO-FREEZE")

FIRST = ["terraform", "kubernetes", "invariants"]
SECONDS = 60.0
"""Within which changes go on once a freeze is over, on a machine that has much else to do."""


@pytest.fixture
async def stage(theatre: Theatre) -> Theatre:
    """A theatre whose server serves ChangeFreezes from now on, with one instance."""
    await theatre.environment.install_crds(ChangeFreeze)
    await theatre.apply(instance())
    await theatre.phase("Ready")
    return theatre


def writes(stage: Theatre, since: Mark) -> list[LogEntry]:
    """What the manager wrote since then; events are sent in the background."""
    return [item for item in stage.writes(since) if not item.resource.startswith("events")]


def held(found: Resource[Any, Any] | None) -> Waiting | None:
    return found.status.waiting if isinstance(found, Instance) else None


async def waits(stage: Theatre, reason: str) -> Waiting:
    found = await stage.until(
        "Instance", lambda item: (waiting := held(item)) is not None and waiting.reason == reason
    )
    waiting = held(found)
    assert waiting is not None
    return waiting


async def test_an_upgrade_waits_and_a_new_instance_is_built(stage: Theatre) -> None:
    async with frozen(stage.client, reason="Audit") as freeze:
        await freeze_until(stage.client, freeze, lambda each: each.status.phase == "Active")
        await stage.edit("Instance", {"sourcegraphVersion": "5.2.0"})
        waiting = await waits(stage, "Frozen")
        assert freeze in waiting.message
        assert "Audit" in waiting.message
        found = await stage.read("Instance")
        assert found.status.phase == "Waiting"
        assert freeze in found.status.message
        condition = find_condition(found.status.conditions, "ChangesHeld")
        assert condition is not None
        assert (condition.status, condition.reason) == ("True", "Frozen")
        await freeze_until(stage.client, freeze, lambda each: each.status.held.cloud == 1)

        await stage.apply(instance("src-2"))
        await stage.phase("Ready", "src-2")
        assert stage.elsewhere.tasks() == [*FIRST, *FIRST]
        mark = stage.mark()
        await stage.idle()
        assert writes(stage, mark) == []

        await stage.stop_manager()
        await stage.start_manager()
        await stage.idle()
        assert writes(stage, mark) == [], "a restart changes nothing"
        began = time.monotonic()
    ready = await stage.until("Instance", lambda item: item.status.version == "5.2.0")
    assert time.monotonic() - began < SECONDS
    ready = await stage.phase("Ready")
    condition = find_condition(ready.status.conditions, "ChangesHeld")
    assert condition is not None
    assert condition.status == "False"
    assert stage.elsewhere.tasks()[6:] == ["upgrade", "kubernetes", "invariants"]


async def test_changed_infrastructure_waits_and_unchanged_inputs_are_carried_out_again(
    stage: Theatre,
) -> None:
    await stage.edit("Instance", {"invariantsPeriod": "1s"})
    await eventually(lambda: stage.elsewhere.tasks().count("invariants") > 2)
    async with frozen(stage.client) as freeze:
        await freeze_until(stage.client, freeze, lambda each: each.status.phase == "Active")
        pool = {"blue": {"machineType": "n2-standard-16"}}
        await stage.edit("Instance", {"infrastructure": {"gcp": {"zone": "z", "gke": pool}}})
        await waits(stage, "Frozen")
        known = stage.elsewhere.tasks().count("invariants")
        await eventually(lambda: stage.elsewhere.tasks().count("invariants") > known + 1)
        assert stage.elsewhere.tasks().count("terraform") == 1
    await eventually(lambda: stage.elsewhere.tasks().count("terraform") == 2)
    await stage.phase("Ready")


async def test_nothing_is_torn_down_in_a_freeze(stage: Theatre) -> None:
    async with frozen(stage.client) as freeze:
        await freeze_until(stage.client, freeze, lambda each: each.status.phase == "Active")
        await stage.delete()
        await stage.until("Instance", lambda item: "ChangeFreeze" in item.status.message)
        assert stage.elsewhere.tasks() == FIRST
    await stage.gone("Instance")
    assert "-terraform" in stage.elsewhere.tasks()


async def test_an_exempt_instance_is_changed(stage: Theatre) -> None:
    async with frozen(stage.client, systems=["Cloud"]) as freeze:
        await freeze_until(stage.client, freeze, lambda each: each.status.phase == "Active")
        await stage.edit("Instance", {"sourcegraphVersion": "5.2.0"})
        await waits(stage, "Frozen")
        exempt = {"operations.ctrlruntime.dev/exempt-from-freeze": freeze}
        patch = {"metadata": {"annotations": exempt}}
        await stage.client.patch(Instance, "src-1", patch, namespace="default")
        found = await stage.until("Instance", lambda item: item.status.version == "5.2.0")
        assert found.status.waiting is None


async def test_a_run_under_way_ends_and_its_successor_waits(stage: Theatre) -> None:
    stage.elsewhere.held.add("terraform")
    pool = {"blue": {"machineType": "n2-standard-16"}}
    await stage.edit("Instance", {"infrastructure": {"gcp": {"zone": "z", "gke": pool}}})
    await stage.until("Instance", lambda item: item.status.task.startswith("terraform-"))
    async with frozen(stage.client) as freeze:
        await freeze_until(stage.client, freeze, lambda each: each.status.phase == "Active")
        pool = {"blue": {"machineType": "n2-standard-32"}}
        await stage.edit("Instance", {"infrastructure": {"gcp": {"zone": "z", "gke": pool}}})
        await stage.idle()
        run = (await stage.read("InstanceTerraform")).status.run
        assert run.interrupt_at is None, "what would follow it waits, so it is awaited"
        stage.elsewhere.end("terraform")
        await waits(stage, "Frozen")
        assert stage.elsewhere.tasks().count("terraform") == 2
    await eventually(lambda: stage.elsewhere.tasks().count("terraform") == 3)


async def test_outside_of_its_own_window_an_instance_waits_for_the_opening(stage: Theatre) -> None:
    month = (datetime.now(UTC) + timedelta(days=90)).month
    window = {"schedule": f"0 3 1 {month} *", "duration": "2h", "timeZone": "Europe/Berlin"}
    await stage.edit("Instance", {"maintenanceWindows": [window], "sourcegraphVersion": "5.2.0"})
    waiting = await waits(stage, "Window")
    assert waiting.until is not None
    assert waiting.until > datetime.now(UTC)
    assert waiting.until.astimezone(UTC).hour == (1 if waiting.until.month in range(4, 11) else 2)
    assert stage.elsewhere.tasks() == FIRST
    always = {"schedule": "* * * * *", "duration": "5m"}
    await stage.edit("Instance", {"maintenanceWindows": [always]})
    await stage.until("Instance", lambda item: item.status.version == "5.2.0")


async def test_a_window_that_cannot_be_used_is_named(stage: Theatre) -> None:
    bad = {"schedule": "0 3 * * *", "duration": "2h", "timeZone": "Mars/Olympus"}
    await stage.edit("Instance", {"maintenanceWindows": [bad]})
    found = await stage.phase("Failed")
    assert "spec.maintenanceWindows[0].timeZone" in found.status.message


async def test_a_freeze_of_another_system_holds_nothing_here(stage: Theatre) -> None:
    async with frozen(stage.client, systems=["Tenancy"]) as freeze:
        active = await freeze_until(
            stage.client, freeze, lambda each: each.status.phase == "Active"
        )
        assert active.status.held.cloud == 0
        await stage.edit("Instance", {"sourcegraphVersion": "5.2.0"})
        await stage.until("Instance", lambda item: item.status.version == "5.2.0")
