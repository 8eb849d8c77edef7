"""Rollouts of workloads whose replicas the test reports (R, S, U): nothing else runs them here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from apis.tenancy import RolloutStatus, Tenant, TenantTemplate
from ctrlruntime.json import Json
from tests.tenancy.entries import deployment, report
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, DEPLOYMENT, TenancyHarness, config_map
from tests.tenancy.rollout_fleet import put, status
from tests.tenancy.test_conditions import handled

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.matrix]

UIDS = ("a", "b", "c")
OLD, NEW = "web:1", "web:2"


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


def content(image: str, **options: Json) -> dict[str, Any]:
    """A Deployment of two replicas."""
    return {"deployments": [deployment(image=image, deployment={"replicas": 2}, **options)]}


async def made(
    harness: TenancyHarness, *uids: str, options: dict[str, Any], **rollout: object
) -> Fleet:
    """A fleet whose Deployments are ready with the old image."""
    fleet = await Fleet.make(harness)
    fleet.rows(*uids)
    await fleet.registry()
    await put(fleet, content(OLD, **options), **rollout)
    for uid in uids:
        await report(fleet, f"{uid}-app", ready=2)
    await fleet.ready(*(f"{uid}-app" for uid in uids))
    return fleet


async def changed(fleet: Fleet) -> set[str]:
    """Return the Deployments that have the new image."""
    found = await fleet.harness.client.list(DEPLOYMENT, fleet.namespace)
    return {
        each["metadata"]["name"]
        for each in found
        if each["spec"]["template"]["spec"]["containers"][0]["image"] == NEW
    }


async def changed_are(fleet: Fleet, number: int) -> set[str]:
    """Wait until so many have the new image, and see that it stays at that; these."""
    await fleet.harness.eventually(lambda: changed(fleet), lambda seen: len(seen) >= number)
    await fleet.harness.idle()
    found = await changed(fleet)
    assert len(found) == number, found
    return found


@pytest.mark.criterion("R1")
async def test_r1_without_max_skew_all_tenants_change_at_once(harness: TenancyHarness) -> None:
    fleet = await made(harness, *UIDS, options={})
    await fleet.template(**content(NEW))
    await changed_are(fleet, len(UIDS))
    for uid in UIDS:
        await fleet.until(Tenant, f"{uid}-app", "Ready", "False")
    found = await fleet.get(TenantTemplate.mapping(), "app")
    assert "rollout" not in found["status"]


@pytest.mark.criterion("R6")
@pytest.mark.criterion("R7")
@pytest.mark.criterion("R9")
async def test_r6_the_next_tenant_waits_for_the_end_of_a_rolling_update(
    harness: TenancyHarness,
) -> None:
    fleet = await made(harness, *UIDS, options={}, maxSkew=1)
    await put(fleet, content(NEW), maxSkew=1)
    done: set[str] = set()
    for number in range(1, len(UIDS) + 1):
        found = await changed_are(fleet, number)
        (name,) = found - done
        # the update begins, is half done, and has an old replica left
        for stage in (
            {"updated": 0, "ready": 2, "old": 2},
            {"updated": 1, "ready": 2, "old": 1},
            {"updated": 2, "ready": 2, "old": 1},
        ):
            await report(fleet, name, **stage)
            assert await changed_are(fleet, number) == found
            await fleet.until(Tenant, name, "Ready", "False", "NotAllResourcesReady")
        await report(fleet, name, ready=2)
        await fleet.ready(name)
        done.add(name)
    await status(fleet, lambda seen: seen.phase == "Complete" and seen.total == len(UIDS))


@pytest.mark.criterion("R8")
async def test_r8_pods_that_start_slowly_are_waited_for_and_not_failed(
    harness: TenancyHarness,
) -> None:
    fleet = await made(harness, "a", "b", options={"timeoutSeconds": 60}, maxSkew=1)
    await put(fleet, content(NEW, timeoutSeconds=60), maxSkew=1)
    (first,) = await changed_are(fleet, 1)
    await report(fleet, first, updated=2, ready=0)
    for _ in range(2):
        await harness.synced(1, fleet.namespace)  # each could go on
        assert await changed(fleet) == {first}
        assert (await fleet.read(Tenant, first)).status.failed_resources == 0
    await report(fleet, first, ready=2)
    (second,) = await changed_are(fleet, 2) - {first}
    await report(fleet, second, ready=2)
    await fleet.ready(first, second)
    assert await fleet.events("ResourceFailed") == []


@pytest.mark.criterion("R4")
async def test_r4_the_status_of_a_rollout_has_the_numbers(harness: TenancyHarness) -> None:
    fleet = await made(harness, *UIDS, options={}, maxSkew=1)

    def numbers(seen: RolloutStatus) -> tuple[int, int, int, int]:
        return seen.total, seen.updated, seen.changing, seen.waiting

    await put(fleet, content(NEW), maxSkew=1)
    seen = await status(fleet, lambda seen: numbers(seen) == (3, 1, 1, 2))
    assert (seen.phase, seen.waiting_reason, seen.failed) == ("Progressing", "Budget", 0)
    (first,) = await changed_are(fleet, 1)
    await report(fleet, first, ready=2)
    await status(fleet, lambda seen: numbers(seen) == (3, 2, 1, 1))
    (second,) = await changed_are(fleet, 2) - {first}
    await report(fleet, second, ready=2)
    (third,) = await changed_are(fleet, 3) - {first, second}
    seen = await status(fleet, lambda seen: numbers(seen) == (3, 3, 1, 0))
    assert (seen.phase, seen.waiting_reason) == ("Progressing", "")
    await report(fleet, third, ready=2)
    await status(fleet, lambda seen: seen.phase == "Complete" and numbers(seen) == (3, 3, 0, 0))


@pytest.mark.criterion("U2")
@pytest.mark.criterion("FAULT-B32")
async def test_u2_a_tenant_that_lost_its_pods_is_degraded_and_never_failed(tmp_path: Path) -> None:
    async with TenancyHarness.start(tmp_path) as harness:
        fleet = await Fleet.make(harness)
        fleet.row("a")
        await fleet.registry()
        dependent = config_map("cm", "{{ .uid }}-cm", dependIds=["app"])
        template = content(OLD, timeoutSeconds=3600) | {"configMaps": [dependent]}
        await fleet.template(**template)
        await report(fleet, "a-app", ready=2)
        await fleet.ready("a-app")

        async def is_degraded_for_longer_than_the_timeout(look: str) -> None:
            harness.advance(3601)
            await fleet.annotate(Tenant, "a-app", reconcile_now=look)
            await handled(fleet, Tenant, "a-app", look)
            await harness.idle()
            await fleet.until(Tenant, "a-app", "Degraded", "True", "ResourcesNotReady")
            found = (await fleet.read(Tenant, "a-app")).status
            assert (found.failed_resources, found.skipped_resources) == (0, 0)
            assert await fleet.events("ResourceFailed") == []

        await report(fleet, "a-app", updated=2, ready=1)
        await fleet.until(Tenant, "a-app", "Degraded", "True", "ResourcesNotReady")
        await is_degraded_for_longer_than_the_timeout("first")
        await harness.restart_manager()
        await is_degraded_for_longer_than_the_timeout("second")
        assert await fleet.get(CONFIG_MAP, "a-cm") is not None
        await report(fleet, "a-app", ready=2)
        await fleet.ready("a-app")
        await fleet.until(Tenant, "a-app", "Degraded", "False", "Healthy")
