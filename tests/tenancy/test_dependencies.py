"""The dependency graph (M) and dependencies that fail (N), one test a scenario."""

from __future__ import annotations

from typing import Any

import pytest

from apis.tenancy import Tenant, TenantStatus, TenantTemplate
from ctrlruntime.envtest.proxy import Mark
from ctrlruntime.json import Json
from tests.tenancy.entries import JOB, end_job, job, refused
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, TenancyHarness, config_map

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

TENANT = "a-app"
NONE: tuple[dict[str, Any], ...] = ()


@pytest.fixture
def harness(shared_harness_with_nodes: TenancyHarness) -> TenancyHarness:
    return shared_harness_with_nodes


async def one_tenant(harness: TenancyHarness) -> Fleet:
    """A fleet with one row and no template."""
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    return fleet


def entry(resource: str, *dependencies: str, **fields: Json) -> dict[str, Any]:
    """A ConfigMap that depends on these resources."""
    return config_map(resource, "{{ .uid }}-" + resource, dependIds=[*dependencies], **fields)


def applied(fleet: Fleet, since: Mark) -> list[str]:
    """Return the resources that were applied since then, in that order."""
    written = [line.split() for line in fleet.writes(since)]
    return [
        name.removeprefix("a-") for _, kind, name in written if kind in ("jobs.batch", "configmaps")
    ]


async def status(fleet: Fleet) -> TenantStatus:
    found: TenantStatus = (await fleet.read(Tenant, TENANT)).status
    return found


# -- M: order ----------------------------------------------------------------------------------


@pytest.mark.criterion("M1")
async def test_m1_of_a_chain_each_comes_after_what_it_depends_on(harness: TenancyHarness) -> None:
    fleet = await one_tenant(harness)
    mark = harness.mark()
    await fleet.template(configMaps=[entry("a", "b"), entry("b", "c"), entry("c")])
    await fleet.ready(TENANT)
    assert applied(fleet, mark) == ["c", "b", "a"]


@pytest.mark.criterion("M2")
async def test_m2_a_resource_waits_for_all_of_its_dependencies(harness: TenancyHarness) -> None:
    fleet = await one_tenant(harness)
    mark = harness.mark()
    jobs = [job("first", seconds="600"), job("second", seconds="600")]
    await fleet.template(
        jobs=jobs, configMaps=[entry("last", "first", "second", "free"), entry("free")]
    )
    await fleet.there(CONFIG_MAP, "a-free")
    await end_job(fleet, "a-first")
    await fleet.there(JOB, "a-first", lambda seen: seen["status"].get("succeeded") == 1)
    await harness.idle()
    assert await fleet.get(CONFIG_MAP, "a-last") is None, "the second job is not done"
    await end_job(fleet, "a-second")
    await fleet.ready(TENANT)
    order = applied(fleet, mark)
    assert sorted(order) == ["first", "free", "last", "second"], "each once"
    assert order[-1] == "last"


@pytest.mark.criterion("M3")
async def test_m3_the_sides_of_a_diamond_come_between_its_start_and_its_end(
    harness: TenancyHarness,
) -> None:
    fleet = await one_tenant(harness)
    mark = harness.mark()
    sides = [entry("left", "top"), entry("right", "top")]
    await fleet.template(configMaps=[entry("bottom", "left", "right"), *sides, entry("top")])
    await fleet.ready(TENANT)
    order = applied(fleet, mark)
    assert (order[0], sorted(order[1:3]), order[3:]) == ("top", ["left", "right"], ["bottom"])


@pytest.mark.parametrize(
    ("edges", "path"),
    [
        pytest.param({"x": "y", "y": "x"}, "x -> y -> x", marks=pytest.mark.criterion("M4")),
        pytest.param(
            {"x": "y", "y": "z", "z": "x"}, "x -> y -> z -> x", marks=pytest.mark.criterion("M5")
        ),
        pytest.param({"x": "x"}, "x -> x", marks=pytest.mark.criterion("M6")),
    ],
    ids=["m4-direct", "m5-indirect", "m6-itself"],
)
@pytest.mark.matrix
async def test_m_a_cycle_is_reported_and_nothing_of_it_is_rolled_out(
    harness: TenancyHarness, edges: dict[str, str], path: str
) -> None:
    fleet = await one_tenant(harness)
    await fleet.template(configMaps=[entry(name, to) for name, to in edges.items()])
    reported = await fleet.until(TenantTemplate, "app", "Valid", "False", "DependencyCycle")
    assert f"circular dependency detected: {path}" in reported.message
    await harness.idle()
    assert await fleet.tenants() == []


# -- N: failures -------------------------------------------------------------------------------


async def notes(fleet: Fleet) -> set[str]:
    """Return what the events on skipped resources say."""
    return {event["note"] for event in await fleet.events("DependencySkipped")}


@pytest.mark.criterion("N1")
@pytest.mark.criterion("FAULT-B7")
async def test_n1_what_depends_on_a_failure_is_skipped_until_that_is_fixed(
    harness: TenancyHarness,
) -> None:
    fleet = await one_tenant(harness)
    await fleet.template(services=[refused()], configMaps=[entry("skipped", "bad")])
    await fleet.until(Tenant, TENANT, "Ready", "False", "ResourcesFailed")
    await fleet.event("DependencySkipped")
    assert await notes(fleet) == {"skipped: bad failed (skipped -> bad)"}
    found = await status(fleet)
    assert (found.skipped_resources, found.skipped_resource_ids) == (1, ["skipped"])
    assert found.failed_resource_ids == ["bad"]
    assert await fleet.get(CONFIG_MAP, "a-skipped") is None

    await fleet.template(services=NONE, configMaps=[entry("bad"), entry("skipped", "bad")])
    await fleet.ready(TENANT)
    assert await fleet.get(CONFIG_MAP, "a-skipped") is not None
    found = await status(fleet)
    assert (found.skipped_resources, found.skipped_resource_ids) == (0, []), "nothing is left of it"


@pytest.mark.criterion("N2")
@pytest.mark.matrix
async def test_n2_a_resource_may_be_applied_though_its_dependency_failed(
    harness: TenancyHarness,
) -> None:
    fleet = await one_tenant(harness)
    anyway = entry("anyway", "bad", skipOnDependencyFailure=False)
    await fleet.template(services=[refused()], configMaps=[anyway])
    await fleet.there(CONFIG_MAP, "a-anyway")
    await fleet.until(Tenant, TENANT, "Ready", "False", "ResourcesFailed")
    assert (await fleet.event("ResourceFailed"))["note"].startswith("bad: ")
    found = await harness.eventually(lambda: status(fleet), lambda seen: seen.ready_resources == 1)
    assert (found.skipped_resources, found.failed_resource_ids) == (0, ["bad"])
    assert await notes(fleet) == set()


@pytest.mark.criterion("N3")
@pytest.mark.matrix
async def test_n3_what_depends_on_a_skipped_resource_is_skipped(harness: TenancyHarness) -> None:
    fleet = await one_tenant(harness)
    await fleet.template(
        services=[refused()], configMaps=[entry("cascade", "skipped"), entry("skipped", "bad")]
    )
    found = await harness.eventually(
        lambda: fleet.find(Tenant, TENANT),
        lambda seen: seen is not None and seen.status.skipped_resources == 2,
    )
    assert found.status.skipped_resource_ids == ["cascade", "skipped"]
    await harness.eventually(
        lambda: notes(fleet),
        lambda seen: (
            seen
            == {
                "skipped: bad failed (skipped -> bad)",
                "cascade: bad failed (cascade -> skipped -> bad)",
            }
        ),
    )
    assert await fleet.get(CONFIG_MAP, "a-cascade") is None


@pytest.mark.criterion("N4")
@pytest.mark.matrix
async def test_n4_in_one_chain_some_are_skipped_and_some_are_not(harness: TenancyHarness) -> None:
    fleet = await one_tenant(harness)
    await fleet.template(
        services=[refused()],
        configMaps=[
            entry("skipped", "bad"),
            entry("anyway", "skipped", skipOnDependencyFailure=False),
            entry("after", "anyway"),
            entry("free"),
        ],
    )
    for name in ("a-anyway", "a-after", "a-free"):
        await fleet.there(CONFIG_MAP, name)
    found = await harness.eventually(lambda: status(fleet), lambda seen: seen.ready_resources == 3)
    assert (found.skipped_resource_ids, found.failed_resource_ids) == (["skipped"], ["bad"])
    assert await fleet.get(CONFIG_MAP, "a-skipped") is None


@pytest.mark.criterion("N5")
@pytest.mark.matrix
async def test_n5_what_waits_for_a_dependency_is_not_reported_as_skipped(
    harness: TenancyHarness,
) -> None:
    fleet = await one_tenant(harness)
    await fleet.template(jobs=[job("slow", seconds="600")], configMaps=[entry("blocked", "slow")])
    reported = await fleet.until(Tenant, TENANT, "Ready", "False", "NotAllResourcesReady")
    assert "1 blocked" in reported.message
    await harness.idle()
    assert await fleet.get(CONFIG_MAP, "a-blocked") is None
    assert (await status(fleet)).skipped_resources == 0
    assert await notes(fleet) == set()
    await end_job(fleet, "a-slow")
    await fleet.ready(TENANT)


@pytest.mark.criterion("N6")
@pytest.mark.matrix
async def test_n6_kubectl_get_has_a_column_skipped(harness: TenancyHarness) -> None:
    fleet = await one_tenant(harness)
    await fleet.template(services=[refused()], configMaps=[entry("skipped", "bad")])
    await fleet.until(Tenant, TENANT, "Ready", "False", "ResourcesFailed")
    columns = {column.name: column.json_path for column in Tenant.options().print_columns}
    assert columns["Skipped"] == ".status.skippedResources"
    live = await fleet.get(Tenant.mapping(), TENANT)
    assert live["status"]["skippedResources"] == 1
