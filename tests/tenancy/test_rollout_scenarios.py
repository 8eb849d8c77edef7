"""Rollouts on simulated nodes that run Pods: several templates, old workloads, restarts (R, S)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from apis.tenancy import Tenant, TenantTemplate
from tests.tenancy import rollout_fleet
from tests.tenancy.entries import deployment
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import TenancyHarness, config_map
from tests.tenancy.rollout_fleet import NAMES, observed, put, status, updated

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.matrix]

TIMEOUT = 30
"""Seconds after which a Deployment that is not ready has failed: more than a busy machine takes."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def nodes(
    shared_server: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[TenancyHarness]:
    async with TenancyHarness.start(
        tmp_path_factory.mktemp("harness"), nodes=True, pods=True
    ) as harness:
        yield harness


def workload(value: str) -> dict[str, Any]:
    """A ConfigMap and a Deployment that changes with it."""
    web = deployment(image=f"web:{value}", timeoutSeconds=TIMEOUT, patchStrategy="replace")
    maps = rollout_fleet.content(value)["configMaps"]
    return {"configMaps": maps, "deployments": [web]}


async def old_fleet(harness: TenancyHarness, **rollout: object) -> Fleet:
    """A fleet whose Deployments are older than their timeout."""
    fleet = await Fleet.make(harness)
    fleet.rows(*rollout_fleet.UIDS)
    await fleet.registry()
    await put(fleet, workload("1"), **rollout)
    await fleet.ready(*NAMES)
    harness.advance(TIMEOUT + 0.1)
    return fleet


@pytest.mark.criterion("R3")
async def test_r3_with_max_skew_1_one_tenant_changes_after_the_other(nodes: TenancyHarness) -> None:
    fleet = await rollout_fleet.make(nodes, maxSkew=1)
    async with observed(fleet) as observer:
        await put(fleet, rollout_fleet.content("two"), maxSkew=1)
        await status(fleet, lambda seen: seen.phase == "Complete" and seen.total == len(NAMES))
        await fleet.ready(*NAMES)
    assert observer.most == 1
    assert sorted(observer.order) == sorted(NAMES), "each once"
    assert await updated(fleet, "two") == set(NAMES)


@pytest.mark.criterion("R5")
async def test_r5_a_rollout_that_stands_still_does_not_hold_that_of_another_template(
    nodes: TenancyHarness,
) -> None:
    fleet = await rollout_fleet.make(nodes, maxSkew=1)
    await fleet.template("other", configMaps=[config_map("cm", "{{ uid }}-other", {"value": "1"})])
    others = [f"{uid}-other" for uid in rollout_fleet.UIDS]
    await fleet.ready(*others)
    await put(fleet, rollout_fleet.bad_content(), maxSkew=1, progressDeadlineSeconds=3600)
    await status(fleet, lambda seen: seen.updated == 1 and seen.waiting == len(NAMES) - 1)
    rollout = {"rollout": {"maxSkew": 2}}
    await fleet.patch(TenantTemplate, "other", {"spec": rollout})
    await fleet.patch(
        TenantTemplate,
        "other",
        {"spec": {"configMaps": [config_map("cm", "{{ uid }}-other", {"value": "2"})]}},
    )

    async def phase() -> tuple[str, int]:
        seen = (await fleet.read(TenantTemplate, "other")).status.rollout
        return ("", 0) if seen is None else (seen.phase, seen.updated)

    await nodes.eventually(phase, lambda seen: seen == ("Complete", len(others)))
    await fleet.ready(*others)
    assert len(await updated(fleet, "bad")) == 1, "the first still stands"


@pytest.mark.criterion("S2")
@pytest.mark.criterion("S3")
async def test_s2_a_rollout_over_old_deployments_completes_within_its_budget(
    nodes: TenancyHarness,
) -> None:
    fleet = await old_fleet(nodes, maxSkew=2)
    async with observed(fleet) as observer:
        await put(fleet, workload("2"), maxSkew=2)
        await status(fleet, lambda seen: seen.phase == "Complete" and seen.total == len(NAMES))
        await fleet.ready(*NAMES)
    assert await fleet.events("ResourceFailed") == [], "a failed tenant would free its place"
    assert observer.most <= 2
    assert sorted(observer.order) == sorted(NAMES), "each once"
    assert await updated(fleet, "2") == set(NAMES)


@pytest.mark.criterion("S5")
async def test_s5_a_rollout_after_a_restart_of_the_manager_has_no_failures(tmp_path: Path) -> None:
    async with TenancyHarness.start(tmp_path, nodes=True, pods=True) as harness:
        fleet = await old_fleet(harness, maxSkew=2)
        await harness.restart_manager()
        async with observed(fleet) as observer:
            await put(fleet, workload("2"), maxSkew=2)
            await status(fleet, lambda seen: seen.phase == "Complete" and seen.total == len(NAMES))
            await fleet.ready(*NAMES)
        assert await fleet.events("ResourceFailed") == [], "a failed tenant would free its place"
        assert observer.most <= 2
        assert await updated(fleet, "2") == set(NAMES)
        for name in NAMES:
            assert (await fleet.read(Tenant, name)).status.failed_resources == 0
