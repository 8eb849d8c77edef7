"""Changed rows that take part in a template's rollout: budget, canary, halt, rollback, restarts."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from apis.tenancy import Tenant, TenantTemplate
from ctrlruntime.envtest.proxy import DelayEvents, Match
from internal.tenancy.objects.values import SECRET, secret_name
from internal.tenancy.shared.labels import CHANGE, PREVIOUS_ROW
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, TenancyHarness, config_map
from tests.tenancy.rollout_fleet import (
    NAMES,
    UIDS,
    bad_content,
    content,
    observed,
    put,
    status,
    updated,
)

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.criterion("G-T9")]

BAD = "not a label"
"""A plan with which no tenant becomes ready."""


@pytest_asyncio.fixture(loop_scope="module")
async def own_harness(shared_server: None, tmp_path: Path) -> AsyncIterator[TenancyHarness]:
    async with TenancyHarness.start(tmp_path) as harness:
        yield harness


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


def labelled(value: str) -> dict[str, Any]:
    """Content that the server refuses for tenants with the plan BAD."""
    made = content(value)
    made["configMaps"][0]["labelsTemplate"] = {"plan": "{{ planId }}"}
    return made


async def make(harness: TenancyHarness, **rollout: object) -> Fleet:
    """A fleet of ready tenants with the plan `basic`, whose rows take part in the rollout."""
    fleet = await Fleet.make(harness)
    fleet.rows(*UIDS)
    await fleet.registry()
    await put(fleet, labelled("one"), rows=True, **rollout)
    await fleet.ready(*NAMES)
    return fleet


async def plans(fleet: Fleet) -> dict[str, str]:
    """The plan that each tenant has."""
    found = await fleet.harness.client.list(Tenant, fleet.namespace)
    return {item.metadata.name or "": str(item.spec.variables["planId"]) for item in found}


async def with_plan(fleet: Fleet, plan: str) -> set[str]:
    return {name for name, seen in (await plans(fleet)).items() if seen == plan}


def update_all(fleet: Fleet, plan: str) -> None:
    """One statement changes all rows."""
    fleet.sql("UPDATE tenants SET plan = ?", plan)


async def test_one_bad_update_of_all_rows_reaches_as_many_as_the_budget_allows(
    harness: TenancyHarness,
) -> None:
    fleet = await make(harness, maxSkew=1, haltOnFailures=1)
    update_all(fleet, BAD)
    halted = await status(fleet, lambda seen: seen.phase == "Halted")
    assert len(await with_plan(fleet, BAD)) == 1
    assert (halted.updated, halted.waiting, halted.failed) == (1, len(UIDS) - 1, 1)
    await fleet.event("RolloutHalted")
    update_all(fleet, "gold")
    await status(fleet, lambda seen: seen.phase == "Complete")
    await fleet.ready(*NAMES)
    assert await with_plan(fleet, "gold") == set(NAMES)


async def test_a_rollback_returns_the_values_before_and_goes_on_with_corrected_rows(
    harness: TenancyHarness,
) -> None:
    fleet = await make(harness, maxSkew=2, onHalt="Rollback")
    update_all(fleet, BAD)
    await status(fleet, lambda seen: seen.phase == "RolledBack")
    assert await with_plan(fleet, "basic") == set(NAMES)
    await fleet.ready(*NAMES)
    # A row that is corrected goes on; what was refused stays where it is.
    fleet.row("a", plan="silver")
    await fleet.harness.eventually(
        lambda: fleet.read(Tenant, "b-app"),
        lambda seen: seen.spec.variables["planId"] == "basic",
    )
    update_all(fleet, "gold")
    await status(fleet, lambda seen: seen.phase == "Complete")
    await fleet.ready(*NAMES)
    assert await with_plan(fleet, "gold") == set(NAMES)


async def test_the_canary_changes_first_and_the_others_wait_for_it(
    harness: TenancyHarness,
) -> None:
    canary = {"selector": {"matchVariables": {"uid": "c"}}}
    fleet = await make(harness, canary=canary, haltOnFailures=1)
    update_all(fleet, BAD)
    halted = await status(fleet, lambda seen: seen.phase == "Halted")
    assert await with_plan(fleet, BAD) == {"c-app"}
    assert halted.waiting == len(UIDS) - 1
    update_all(fleet, "gold")
    await status(fleet, lambda seen: seen.phase == "Complete")
    assert await with_plan(fleet, "gold") == set(NAMES)


async def test_content_and_rows_share_one_budget(harness: TenancyHarness) -> None:
    fleet = await make(harness, maxSkew=2)
    async with observed(fleet) as observer:
        update_all(fleet, "gold")
        await put(fleet, labelled("two"), rows=True, maxSkew=2)
        await fleet.harness.eventually(lambda: with_plan(fleet, "gold"), set(NAMES).__eq__)
        await status(fleet, lambda seen: seen.phase == "Complete" and seen.total == len(UIDS))
        await fleet.ready(*NAMES)
    assert observer.most <= 2
    assert await updated(fleet, "two") == set(NAMES)


async def test_bad_content_is_taken_back_and_the_rows_of_that_time_stay(
    harness: TenancyHarness,
) -> None:
    rollout = {"rows": True, "maxSkew": 1, "onHalt": "Rollback"}
    fleet = await make(harness, maxSkew=1, onHalt="Rollback")
    await put(fleet, bad_content(), **rollout)
    await status(fleet, lambda seen: seen.phase == "RolledBack")
    # Another value of a row is no other content: it lifts no halt.
    update_all(fleet, "gold")
    seen = await status(fleet, lambda seen: seen.waiting == len(UIDS) and seen.rolled_back == 1)
    assert seen.phase == "RolledBack"
    assert await updated(fleet, "one") == await with_plan(fleet, "basic") == set(NAMES)
    await put(fleet, labelled("two"), **rollout)
    await status(fleet, lambda seen: seen.phase == "Complete")
    assert await updated(fleet, "two") == await with_plan(fleet, "gold") == set(NAMES)


async def test_sensitive_values_are_staged_and_not_taken_back(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows(*UIDS)
    password = {"column": "secret", "sensitive": True}
    await fleet.registry(extraValueMappings={"planId": "plan", "password": password})
    await put(fleet, labelled("one"), rows=True, maxSkew=1, onHalt="Rollback")
    await fleet.ready(*NAMES)
    fleet.sql("UPDATE tenants SET plan = ?, secret = 'new'", BAD)
    held = await status(fleet, lambda seen: seen.phase == "Halted" and seen.kept == 1)
    assert "is not recorded" in held.message
    (changed,) = await with_plan(fleet, BAD)
    annotations = (await fleet.read(Tenant, changed)).metadata.annotations or {}
    assert CHANGE in annotations
    assert PREVIOUS_ROW not in annotations
    assert "new" not in json.dumps(annotations)
    # What is lost is made again, and what is edited put back, from what was admitted.
    waiting = min(await with_plan(fleet, "basic"))
    uid = waiting.removesuffix("-app")
    text = base64.b64encode(f"secret-of-{uid}".encode()).decode()
    for change in ("lost", "edited"):
        if change == "lost":
            await harness.client.delete(SECRET, secret_name(waiting), namespace=fleet.namespace)
            await harness.client.delete(CONFIG_MAP, f"{uid}-cm", namespace=fleet.namespace)
        else:
            await harness.client.patch(
                SECRET,
                secret_name(waiting),
                {"data": {"password": "bmV3"}},
                namespace=fleet.namespace,
            )
            # It fails so, and the refused row is no fix for that.
            await fleet.patch(Tenant, waiting, {"spec": {"variables": {"planId": BAD}}})
        await harness.eventually(
            lambda: fleet.get(SECRET, secret_name(waiting)),
            lambda seen: seen is not None and seen["data"] == {"password": text},
        )
        await harness.eventually(lambda: fleet.get(CONFIG_MAP, f"{uid}-cm"))
        await harness.eventually(
            lambda: with_plan(fleet, "basic"), {*NAMES}.difference([changed]).__eq__
        )
        assert await with_plan(fleet, BAD) == {changed}


async def test_other_content_tries_refused_rows_again(harness: TenancyHarness) -> None:
    fleet = await make(harness, maxSkew=1, onHalt="Rollback")
    update_all(fleet, BAD)
    first = await status(fleet, lambda seen: seen.phase == "RolledBack")
    assert first.rolled_back == 1
    await put(fleet, content("two"), rows=True, maxSkew=1, onHalt="Rollback")
    await status(fleet, lambda seen: seen.phase == "Complete")
    assert await with_plan(fleet, BAD) == set(NAMES)


async def test_new_rows_and_edits_by_hand_do_not_wait(harness: TenancyHarness) -> None:
    fleet = await make(harness, maxSkew=1, haltOnFailures=1)
    update_all(fleet, BAD)
    await status(fleet, lambda seen: seen.phase == "Halted")
    fleet.rows("new")
    await fleet.ready("new-app")
    waiting = min(await with_plan(fleet, "basic") - {"new-app"})
    admitted = (await fleet.read(Tenant, waiting)).spec
    for edit in (
        {"configMaps": [config_map("cm", "by-hand")]},
        {"variables": {"planId": BAD}},
        {"variables": {"planId": None, "more": "x"}, "templateRevision": "0"},
        {"sensitiveVariables": {"secretName": "other", "names": ["x"]}},
    ):
        await fleet.patch(Tenant, waiting, {"spec": edit})
        await fleet.harness.eventually(
            lambda: fleet.read(Tenant, waiting), lambda seen: seen.spec == admitted
        )
    assert "new-app" not in await with_plan(fleet, BAD)


async def test_without_rows_a_changed_row_reaches_its_tenants_at_once(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows(*UIDS)
    await fleet.registry()
    await put(fleet, content("one"), pause=True)
    await fleet.ready(*NAMES)
    update_all(fleet, "gold")
    await fleet.harness.eventually(lambda: with_plan(fleet, "gold"), set(NAMES).__eq__)
    paused = await fleet.read(TenantTemplate, "app")
    assert paused.status.rollout is not None
    assert paused.status.rollout.waiting == 0


async def test_a_manager_that_is_restarted_in_the_midst_keeps_the_budget_and_goes_back(
    own_harness: TenancyHarness,
) -> None:
    fleet = await make(own_harness, maxSkew=1, onHalt="Rollback", progressDeadlineSeconds=600)
    # What a manager sees late it takes back late: the restart falls between change and rollback.
    late = Match(user="manager", resource="tenants")
    own_harness.environment.proxy.add(DelayEvents(seconds=0.3), late)
    update_all(fleet, BAD)

    async def changed() -> list[str]:
        found = await own_harness.client.list(Tenant, fleet.namespace)
        return [item.metadata.name for item in found if CHANGE in (item.metadata.annotations or {})]

    await own_harness.eventually(changed)
    await own_harness.restart_manager()
    await status(fleet, lambda seen: seen.phase == "RolledBack")
    assert await with_plan(fleet, "basic") == set(NAMES)
    # What was admitted is on record: an edit while no manager runs does not pass for the row before.
    await own_harness.stop_manager()
    await fleet.patch(Tenant, NAMES[0], {"spec": {"variables": {"planId": "by-hand"}}})
    await own_harness.start_manager()
    await own_harness.eventually(lambda: with_plan(fleet, "basic"), set(NAMES).__eq__)
    update_all(fleet, "gold")
    async with observed(fleet) as observer:
        await status(fleet, lambda seen: seen.phase == "Complete")
    assert await with_plan(fleet, "gold") == set(NAMES)
    assert observer.most <= 1
