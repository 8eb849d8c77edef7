"""A changed template reaches its tenants by its rollout: budget, canary, halt, pause, windows, restarts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from apis.tenancy import Tenant, TenantTemplate
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.envtest.proxy import DelayEvents, Match
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import TenancyHarness
from tests.tenancy.rollout_fleet import (
    NAMES,
    UIDS,
    bad_content,
    content,
    make,
    observed,
    put,
    status,
    updated,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.criterion("RO-3")]


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


@pytest.mark.criterion("R2")
async def test_no_more_than_max_skew_change_at_once_and_each_tenant_once(
    harness: TenancyHarness,
) -> None:
    fleet = await make(harness, maxSkew=2)
    async with observed(fleet) as observer:
        await put(fleet, content("two"), maxSkew=2)
        done = await status(
            fleet, lambda seen: seen.phase == "Complete" and seen.total == len(UIDS)
        )
        await fleet.ready(*NAMES)
    assert observer.most <= 2
    assert sorted(observer.order) == sorted(NAMES)
    assert await updated(fleet, "two") == set(NAMES)
    assert (done.updated, done.changing, done.waiting) == (len(UIDS), 0, 0)
    await fleet.event("RolloutComplete")


async def test_without_a_rollout_nothing_of_it_is_written(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows("a", "b")
    await fleet.registry()
    await fleet.template(**content("one"))
    await fleet.ready("a-app", "b-app")
    await fleet.template(**content("two"))
    await fleet.until(TenantTemplate, "app", "Applied", "True")
    template = await fleet.get(TenantTemplate.mapping(), "app")
    tenant = await fleet.get(Tenant.mapping(), "a-app")
    assert "rollout" not in template["status"]
    assert not [name for name in tenant["metadata"]["annotations"] if "rollout" in name]
    assert "rollout" not in tenant["spec"]


async def test_a_bad_change_halts_and_goes_on_with_other_content(harness: TenancyHarness) -> None:
    settings = {"maxSkew": 2, "haltOnFailures": 1}
    fleet = await make(harness, **settings)
    await put(fleet, bad_content(), **settings)
    halted = await status(fleet, lambda seen: seen.phase == "Halted")
    assert halted.waiting_reason == "Halted"
    assert 1 <= len(await updated(fleet, "bad")) <= 2
    assert halted.updated + halted.waiting == len(UIDS)
    event = await fleet.event("RolloutHalted")
    assert event["type"] == "Warning"
    await fleet.until(TenantTemplate, "app", "RolloutHalted", "True", "TooManyFailures")
    # A halt does not keep rows from reaching tenants, in the content that they have.
    waiting = min(await updated(fleet, "one"))
    fleet.row(waiting.removesuffix("-app"), plan="gold")

    async def plan() -> str:
        tenant = await fleet.read(Tenant, waiting)
        return str(tenant.spec.variables.get("planId"))

    await fleet.harness.eventually(plan, lambda seen: seen == "gold")
    assert waiting in await updated(fleet, "one")
    fleet.rows("new")
    await fleet.ready("new-app")
    assert "new-app" in await updated(fleet, "one")

    await put(fleet, content("three"), **settings)
    await status(fleet, lambda seen: seen.phase == "Complete" and seen.total == len(UIDS) + 1)
    await fleet.ready(*NAMES)
    assert await updated(fleet, "three") == {*NAMES, "new-app"}
    await fleet.until(TenantTemplate, "app", "RolloutHalted", "False")


@pytest.mark.criterion("FAULT-B13")
async def test_a_fix_of_failed_tenants_does_not_wait_for_the_budget(
    harness: TenancyHarness,
) -> None:
    fleet = await make(harness, maxSkew=1, progressDeadlineSeconds=1)
    await put(fleet, bad_content(), maxSkew=1, progressDeadlineSeconds=1)
    await status(fleet, lambda seen: seen.failed >= 3)
    await put(fleet, content("three"), maxSkew=1, progressDeadlineSeconds=600)
    await status(fleet, lambda seen: seen.phase == "Complete" and seen.total == len(UIDS))
    await fleet.ready(*NAMES)
    assert await updated(fleet, "three") == set(NAMES)


async def test_a_paused_rollout_changes_no_member_until_it_goes_on(harness: TenancyHarness) -> None:
    fleet = await make(harness)
    await put(fleet, content("two"), pause=True)
    paused = await status(fleet, lambda seen: seen.phase == "Paused")
    assert paused.waiting == len(UIDS)
    assert await updated(fleet, "two") == set()
    await put(fleet, content("two"))
    await status(fleet, lambda seen: seen.phase == "Complete")
    assert await updated(fleet, "two") == set(NAMES)


async def test_the_canary_changes_first_and_soaks(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows(*UIDS[1:])
    fleet.row("a", plan="internal")
    await fleet.registry()
    settings: dict[str, Any] = {
        "canary": {"selector": {"matchVariables": {"planId": "internal"}}},
        "soakSeconds": 3600,
    }
    await put(fleet, content("one"), **settings)
    await fleet.ready(*NAMES)
    await put(fleet, content("two"), **settings)
    soaking = await status(fleet, lambda seen: seen.waiting_until is not None)
    assert soaking.waiting_reason == "Wave"
    assert "soaks until" in soaking.message
    assert await updated(fleet, "two") == {"a-app"}
    await put(fleet, content("two"), **{**settings, "soakSeconds": 1})
    await status(fleet, lambda seen: seen.phase == "Complete")
    assert await updated(fleet, "two") == set(NAMES)


async def test_outside_of_the_window_changes_wait_for_its_opening(harness: TenancyHarness) -> None:
    fleet = await make(harness)
    month = (datetime.now(UTC) + timedelta(days=90)).month
    window = {"schedule": f"0 3 1 {month} *", "duration": "2h", "timeZone": "Europe/Berlin"}
    await put(fleet, content("two"), maintenanceWindows=[window])
    closed = await status(fleet, lambda seen: seen.phase == "WaitingForWindow")
    assert closed.waiting_reason == "Window"
    assert closed.waiting_until is not None
    assert closed.waiting_until > datetime.now(UTC)
    assert await updated(fleet, "two") == set()
    always = {"schedule": "* * * * *", "duration": "1h"}
    await put(fleet, content("two"), maintenanceWindows=[window, always])
    await status(fleet, lambda seen: seen.phase == "Complete")
    assert await updated(fleet, "two") == set(NAMES)


async def test_a_window_that_cannot_be_used_is_named_and_nothing_changes(
    harness: TenancyHarness,
) -> None:
    fleet = await make(harness)
    window = {"schedule": "0 3 * *", "duration": "2h"}
    await put(fleet, content("two"), maintenanceWindows=[window])
    valid = await fleet.until(TenantTemplate, "app", "Valid", "False", "ValidationFailed")
    assert "rollout.maintenanceWindows[0].schedule" in valid.message
    assert await updated(fleet, "two") == set()


@pytest_asyncio.fixture(loop_scope="module")
async def own_harness(shared_server: None, tmp_path: Path) -> AsyncIterator[TenancyHarness]:
    async with TenancyHarness.start(tmp_path) as harness:
        yield harness


@pytest.mark.criterion("FAULT-B14")
async def test_the_budget_is_kept_with_late_events_and_a_manager_restarted_in_the_middle(
    own_harness: TenancyHarness,
) -> None:
    fleet = await make(own_harness, maxSkew=2)
    own_harness.environment.proxy.add(
        DelayEvents(seconds=0.3), Match(user="manager", resource="tenants")
    )
    async with observed(fleet) as observer:
        await put(fleet, content("two"), maxSkew=2)
        await status(fleet, lambda seen: seen.updated >= 3)
        await own_harness.restart_manager()
        await status(fleet, lambda seen: seen.phase == "Complete" and seen.total == len(UIDS))
        await fleet.ready(*NAMES)
    assert observer.most <= 2
    assert sorted(observer.order) == sorted(NAMES)
    assert find_condition((await fleet.read(TenantTemplate, "app")).status.conditions, "Valid")
