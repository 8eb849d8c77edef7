"""A changed template reaches its tenants by its rollout: budget, canary, halt, pause, windows, restarts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from apis.tenancy import RolloutStatus, Tenant, TenantTemplate
from ctrlruntime.api.conditions import find_condition
from ctrlruntime.envtest.proxy import DelayEvents, Match
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import World, config_map, is_ready

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.criterion("RO-3")]

UIDS = tuple("abcdefgh")
NAMES = tuple(f"{uid}-app" for uid in UIDS)


@pytest.fixture
def world(shared_world: World) -> World:
    return shared_world


def content(value: str) -> dict[str, Any]:
    return {
        "configMaps": [config_map("cm", "{{ uid }}-cm", {"value": value, "plan": "{{ planId }}"})]
    }


def bad_content() -> dict[str, Any]:
    """Content that the server refuses for every tenant."""
    return {"configMaps": [config_map("cm", "{{ uid }}-cm", {"no/key": "x"})]}


async def make(world: World, **rollout: Any) -> Fleet:
    """A fleet whose tenants have the content `one`."""
    fleet = await Fleet.make(world)
    fleet.rows(*UIDS)
    await fleet.registry()
    await put(fleet, content("one"), **rollout)
    await fleet.ready(*NAMES)
    return fleet


async def put(fleet: Fleet, lists: dict[str, Any], **rollout: Any) -> None:
    spec = {"registryId": "registry", "rollout": rollout, **lists}
    metadata = {"name": "app", "namespace": fleet.namespace}
    kind = TenantTemplate.mapping()
    head = {"apiVersion": kind.gvk.api_version, "kind": kind.gvk.kind}
    await fleet.world.put(kind, {**head, "metadata": metadata, "spec": spec})


async def status(
    fleet: Fleet, holds: Callable[[RolloutStatus], bool], *, of_now: bool = True
) -> RolloutStatus:
    """Wait for a status of the rollout, by default one of the present generation."""

    async def look() -> RolloutStatus | None:
        template = await fleet.find(TenantTemplate, "app")
        current = template.status.observed_generation == template.metadata.generation
        found: RolloutStatus | None = template.status.rollout
        return found if current or not of_now else None

    seen: RolloutStatus = await fleet.world.eventually(
        look, lambda found: found is not None and holds(found)
    )
    return seen


async def values(fleet: Fleet) -> dict[str, str]:
    """The value that each tenant's spec has."""
    found = await fleet.world.client.list(Tenant, fleet.namespace)
    return {
        item.metadata.name or "": item.spec.config_maps[0].spec["data"].get("value", "bad")
        for item in found
    }


async def updated(fleet: Fleet, value: str) -> set[str]:
    return {name for name, seen in (await values(fleet)).items() if seen == value}


@dataclass(slots=True)
class Observer:
    """Follows the tenants of a fleet by a watch and counts those that change at once."""

    revision: str
    most: int = 0
    order: list[str] = field(default_factory=list)
    writes: dict[str, int] = field(default_factory=dict)
    _changing: set[str] = field(default_factory=set)
    _generations: dict[str, int] = field(default_factory=dict)

    def saw(self, tenant: Tenant) -> None:
        name = tenant.metadata.name or ""
        if tenant.spec.template_revision == self.revision:
            return
        generation = tenant.metadata.generation or 0
        if self._generations.get(name) != generation:
            self._generations[name] = generation
            self.order.append(name)
        if is_ready(tenant):
            self._changing.discard(name)
        else:
            self._changing.add(name)
        self.most = max(self.most, len(self._changing))


@contextlib.asynccontextmanager
async def observed(fleet: Fleet) -> AsyncIterator[Observer]:
    """Observe all changes away from the revision that the tenants have now."""
    first = await fleet.find(Tenant, NAMES[0])
    observer = Observer(first.spec.template_revision)
    seen = asyncio.Event()

    async def follow() -> None:
        async with aclosing(fleet.world.client.watch(Tenant, fleet.namespace)) as events:
            async for _, tenant in events:
                observer.saw(tenant)
                seen.set()

    task = asyncio.create_task(follow())
    await seen.wait()
    yield observer
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_no_more_than_max_skew_change_at_once_and_each_tenant_once(world: World) -> None:
    fleet = await make(world, maxSkew=2)
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


async def test_without_a_rollout_nothing_of_it_is_written(world: World) -> None:
    fleet = await Fleet.make(world)
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


async def test_a_bad_change_halts_and_goes_on_with_other_content(world: World) -> None:
    settings = {"maxSkew": 2, "haltOnFailures": 1}
    fleet = await make(world, **settings)
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
        tenant = await fleet.find(Tenant, waiting)
        return str(tenant.spec.variables.get("planId"))

    await fleet.world.eventually(plan, lambda seen: seen == "gold")
    assert waiting in await updated(fleet, "one")
    fleet.rows("new")
    await fleet.ready("new-app")
    assert "new-app" in await updated(fleet, "one")

    await put(fleet, content("three"), **settings)
    await status(fleet, lambda seen: seen.phase == "Complete" and seen.total == len(UIDS) + 1)
    await fleet.ready(*NAMES)
    assert await updated(fleet, "three") == {*NAMES, "new-app"}
    await fleet.until(TenantTemplate, "app", "RolloutHalted", "False")


async def test_a_fix_of_failed_tenants_does_not_wait_for_the_budget(world: World) -> None:
    fleet = await make(world, maxSkew=1, progressDeadlineSeconds=1)
    await put(fleet, bad_content(), maxSkew=1, progressDeadlineSeconds=1)
    await status(fleet, lambda seen: seen.failed >= 3)
    await put(fleet, content("three"), maxSkew=1, progressDeadlineSeconds=600)
    await status(fleet, lambda seen: seen.phase == "Complete" and seen.total == len(UIDS))
    await fleet.ready(*NAMES)
    assert await updated(fleet, "three") == set(NAMES)


async def test_a_paused_rollout_changes_nobody_until_it_goes_on(world: World) -> None:
    fleet = await make(world)
    await put(fleet, content("two"), pause=True)
    paused = await status(fleet, lambda seen: seen.phase == "Paused")
    assert paused.waiting == len(UIDS)
    assert await updated(fleet, "two") == set()
    await put(fleet, content("two"))
    await status(fleet, lambda seen: seen.phase == "Complete")
    assert await updated(fleet, "two") == set(NAMES)


async def test_the_canary_changes_first_and_soaks(world: World) -> None:
    fleet = await Fleet.make(world)
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


async def test_outside_of_the_window_changes_wait_for_its_opening(world: World) -> None:
    fleet = await make(world)
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


async def test_a_window_that_cannot_be_used_is_named_and_nothing_changes(world: World) -> None:
    fleet = await make(world)
    window = {"schedule": "0 3 * *", "duration": "2h"}
    await put(fleet, content("two"), maintenanceWindows=[window])
    valid = await fleet.until(TenantTemplate, "app", "Valid", "False", "ValidationFailed")
    assert "rollout.maintenanceWindows[0].schedule" in valid.message
    assert await updated(fleet, "two") == set()


@pytest_asyncio.fixture(loop_scope="module")
async def own_world(ground: None, tmp_path: Path) -> AsyncIterator[World]:
    async with World.start(tmp_path) as world:
        yield world


async def test_the_budget_is_kept_with_late_events_and_a_manager_restarted_in_the_middle(
    own_world: World,
) -> None:
    fleet = await make(own_world, maxSkew=2)
    own_world.environment.proxy.add(
        DelayEvents(seconds=0.3), Match(user="manager", resource="tenants")
    )
    async with observed(fleet) as observer:
        await put(fleet, content("two"), maxSkew=2)
        await status(fleet, lambda seen: seen.updated >= 3)
        await own_world.restart_manager()
        await status(fleet, lambda seen: seen.phase == "Complete" and seen.total == len(UIDS))
        await fleet.ready(*NAMES)
    assert observer.most <= 2
    assert sorted(observer.order) == sorted(NAMES)
    assert find_condition((await fleet.find(TenantTemplate, "app")).status.conditions, "Valid")
