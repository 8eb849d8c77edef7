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
from manager.controllers import change_freezes
from tests.cloud.instance.e2e_harness import E2EHarness
from tests.cloud.instance.harness import NAMESPACE, instance
from tests.support.freezes import freeze_until, frozen, grant, requesting
from tests.support.waiting import eventually

pytestmark = pytest.mark.criterion("RO-FREEZE")

FIRST = ["terraform", "kubernetes", "invariants"]
SECONDS = 60.0
"""Within which changes go on once a freeze is over, on a machine that has much else to do."""


@pytest.fixture(autouse=True)
def counts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a freeze holds is counted without a pause for what may follow."""
    monkeypatch.setattr(change_freezes, "STATUS_PERIOD", 0.1)


@pytest.fixture
async def harness(e2e_harness: E2EHarness) -> E2EHarness:
    """A e2e_harness whose server serves ChangeFreezes from now on, with one instance."""
    await e2e_harness.environment.install_crds(ChangeFreeze)
    await e2e_harness.apply(instance())
    await e2e_harness.phase("Ready")
    return e2e_harness


def writes(harness: E2EHarness, since: Mark) -> list[LogEntry]:
    """What the manager wrote since then; events are sent in the background."""
    return [item for item in harness.writes(since) if not item.resource.startswith("events")]


def held(found: Resource[Any, Any] | None) -> Waiting | None:
    return found.status.waiting if isinstance(found, Instance) else None


def is_frozen(waiting: Waiting | None) -> bool:
    return waiting is not None and waiting.reason == "Frozen"


async def waits(harness: E2EHarness, reason: str) -> Waiting:
    found = await harness.until(
        "Instance", lambda item: (waiting := held(item)) is not None and waiting.reason == reason
    )
    waiting = held(found)
    assert waiting is not None
    return waiting


async def test_an_upgrade_waits_and_a_new_instance_is_built(harness: E2EHarness) -> None:
    async with frozen(harness.client, reason="Audit") as freeze:
        await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
        await harness.edit("Instance", {"version": "5.2.0"})
        waiting = await waits(harness, "Frozen")
        assert freeze in waiting.message
        assert "Audit" in waiting.message
        found = await harness.read("Instance")
        assert found.status.phase == "Waiting"
        assert freeze in found.status.message
        condition = find_condition(found.status.conditions, "ChangesHeld")
        assert condition is not None
        assert (condition.status, condition.reason) == ("True", "Frozen")
        await freeze_until(harness.client, freeze, lambda each: each.status.held.cloud == 1)

        await harness.apply(instance("src-2"))
        await harness.phase("Ready", "src-2")
        assert harness.elsewhere.tasks() == [*FIRST, *FIRST]
        mark = harness.mark()
        await harness.idle()
        assert writes(harness, mark) == []

        await harness.stop_manager()
        await harness.start_manager()
        await harness.idle()
        assert writes(harness, mark) == [], "a restart changes nothing"
        began = time.monotonic()
    ready = await harness.until("Instance", lambda item: item.status.version == "5.2.0")
    assert time.monotonic() - began < SECONDS
    ready = await harness.phase("Ready")
    condition = find_condition(ready.status.conditions, "ChangesHeld")
    assert condition is not None
    assert condition.status == "False"
    assert harness.elsewhere.tasks()[6:] == ["upgrade", "kubernetes", "invariants"]


async def test_changed_infrastructure_waits_and_unchanged_inputs_are_carried_out_again(
    harness: E2EHarness,
) -> None:
    await harness.edit("Instance", {"invariantsPeriod": "1s"})
    await eventually(lambda: harness.elsewhere.tasks().count("invariants") > 2)
    async with frozen(harness.client) as freeze:
        await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
        pool = {"blue": {"machineType": "n2-standard-16"}}
        await harness.edit("Instance", {"infrastructure": {"gcp": {"zone": "z", "gke": pool}}})
        await waits(harness, "Frozen")
        known = harness.elsewhere.tasks().count("invariants")
        await eventually(lambda: harness.elsewhere.tasks().count("invariants") > known + 1)
        assert harness.elsewhere.tasks().count("terraform") == 1
    await eventually(lambda: harness.elsewhere.tasks().count("terraform") == 2)
    await harness.phase("Ready")


async def test_changed_infrastructure_waits_where_the_status_is_lost_beside_a_failed_workload(
    harness: E2EHarness,
) -> None:
    """The version that runs is unknown then, as before the first roll-out, which no freeze holds."""
    outside = harness.elsewhere
    outside.failing["kubernetes"] = "not ready within 600 s"
    await harness.edit("Instance", {"domain": "new.example.com"})
    found = await harness.phase("Failed")
    known = outside.tasks().count("terraform")
    async with frozen(harness.client) as freeze:
        await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
        await harness.stop_manager()
        wiped = {"status": dict.fromkeys(found.status.to_wire())}
        await harness.client.patch_status(Instance, "src-1", wiped, namespace=NAMESPACE)
        pool = {"blue": {"machineType": "n2-standard-16"}}
        await harness.edit("Instance", {"infrastructure": {"gcp": {"zone": "z", "gke": pool}}})
        await harness.start_manager()
        await harness.until("InstanceTerraform", lambda item: is_frozen(item.status.waiting))
        assert outside.tasks().count("terraform") == known
    await eventually(lambda: outside.tasks().count("terraform") == known + 1)


async def test_nothing_is_torn_down_in_a_freeze(harness: E2EHarness) -> None:
    async with frozen(harness.client) as freeze:
        await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
        await harness.delete()
        await harness.until("Instance", lambda item: "ChangeFreeze" in item.status.message)
        assert harness.elsewhere.tasks() == FIRST
    await harness.gone("Instance")
    assert "-terraform" in harness.elsewhere.tasks()


@pytest.mark.criterion("S-F12")
async def test_an_instance_is_changed_once_the_freeze_exempts_it_and_not_by_its_annotation(
    harness: E2EHarness,
) -> None:
    async with frozen(harness.client, systems=["Cloud"]) as freeze:
        await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
        await harness.edit("Instance", {"version": "5.2.0"})
        await waits(harness, "Frozen")
        await harness.client.patch(Instance, "src-1", requesting(freeze), namespace="default")
        command = f"manager freeze exempt {freeze} Instance/src-1 -n default"
        await harness.until(
            "Instance",
            lambda item: (waiting := held(item)) is not None and command in waiting.message,
        )
        await harness.idle()
        assert "upgrade" not in harness.elsewhere.tasks()
        await grant(harness.client, freeze, "Instance", "default", "src-1")
        found = await harness.until("Instance", lambda item: item.status.version == "5.2.0")
        assert found.status.waiting is None


async def test_a_run_under_way_ends_and_its_successor_waits(harness: E2EHarness) -> None:
    harness.elsewhere.held.add("terraform")
    pool = {"blue": {"machineType": "n2-standard-16"}}
    await harness.edit("Instance", {"infrastructure": {"gcp": {"zone": "z", "gke": pool}}})
    await harness.until("Instance", lambda item: item.status.task.startswith("terraform-"))
    async with frozen(harness.client) as freeze:
        await freeze_until(harness.client, freeze, lambda each: each.status.phase == "Active")
        pool = {"blue": {"machineType": "n2-standard-32"}}
        await harness.edit("Instance", {"infrastructure": {"gcp": {"zone": "z", "gke": pool}}})
        await harness.idle()
        run = (await harness.read("InstanceTerraform")).status.run
        assert run.interrupt_at is None, "what would follow it waits, so it is awaited"
        harness.elsewhere.end("terraform")
        await waits(harness, "Frozen")
        assert harness.elsewhere.tasks().count("terraform") == 2
    await eventually(lambda: harness.elsewhere.tasks().count("terraform") == 3)


async def test_outside_of_its_own_window_an_instance_waits_for_the_opening(
    harness: E2EHarness,
) -> None:
    month = (datetime.now(UTC) + timedelta(days=90)).month
    window = {"schedule": f"0 3 1 {month} *", "duration": "2h", "timeZone": "Europe/Berlin"}
    await harness.edit("Instance", {"maintenanceWindows": [window], "version": "5.2.0"})
    waiting = await waits(harness, "Window")
    assert waiting.until is not None
    assert waiting.until > datetime.now(UTC)
    assert waiting.until.astimezone(UTC).hour == (1 if waiting.until.month in range(4, 11) else 2)
    assert harness.elsewhere.tasks() == FIRST
    always = {"schedule": "* * * * *", "duration": "5m"}
    await harness.edit("Instance", {"maintenanceWindows": [always]})
    await harness.until("Instance", lambda item: item.status.version == "5.2.0")


async def test_a_window_that_cannot_be_used_is_named(harness: E2EHarness) -> None:
    bad = {"schedule": "0 3 * * *", "duration": "2h", "timeZone": "Mars/Olympus"}
    await harness.edit("Instance", {"maintenanceWindows": [bad]})
    found = await harness.phase("Failed")
    assert "spec.maintenanceWindows[0].timeZone" in found.status.message


async def test_a_freeze_of_another_system_holds_nothing_here(harness: E2EHarness) -> None:
    async with frozen(harness.client, systems=["Tenancy"]) as freeze:
        active = await freeze_until(
            harness.client, freeze, lambda each: each.status.phase == "Active"
        )
        assert active.status.held.cloud == 0
        await harness.edit("Instance", {"version": "5.2.0"})
        await harness.until("Instance", lambda item: item.status.version == "5.2.0")
