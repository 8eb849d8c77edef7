"""A CRD that is deleted and installed again is noticed by events, both ways (H-A8)."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from apis.tenancy import Tenant
from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.client.errors import NoKindMatch
from ctrlruntime.envtest.proxy import LogEntry, Match, StaleReads
from internal.tenancy.objects import children
from internal.tenancy.tenant import reconciler as tenant_reconciler
from manager.controllers.tenancy import STATUS_DEBOUNCE
from tests.limits import CRD_SECONDS
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, TenancyHarness, config_map, mapping, permissive
from tests.tenancy.test_bad_input import definition

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.criterion("H-A8")]

TERMINATING = (
    "widgets.example.com",
    "gizmos.example.com",
    "doohickeys.example.com",
    "sprockets.example.com",
)
"""A server answers 403 to a write of a kind whose CRD is being deleted."""

LOOKUP = 0.25
"""Seconds between two lookups of a kind whose CRD is not there."""
CRD = mapping("apiextensions.k8s.io/v1", "CustomResourceDefinition")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def harness(
    shared_server: None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[TenancyHarness]:
    folder = tmp_path_factory.mktemp("harness")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tenant_reconciler, "LAST_LOOKUP", LOOKUP)
        async with TenancyHarness.start(
            folder, options=permissive(folder), denied=TERMINATING
        ) as harness:
            yield harness


def gadgets(name: str) -> RESTMapping:
    kind = GroupVersionKind("example.com", "v1", name)
    return RESTMapping(kind, plural=f"{name.lower()}s", namespaced=True)


def manifest(kind: RESTMapping) -> dict[str, Any]:
    spec = {"apiVersion": kind.gvk.api_version, "kind": kind.gvk.kind}
    return {"id": "it", "nameTemplate": "it", "spec": spec}


async def uninstall(harness: TenancyHarness, kind: RESTMapping) -> None:
    name = f"{kind.plural}.{kind.gvk.group}"
    await harness.client.delete(CRD, name)
    await harness.gone(CRD, name, namespace="", timeout=CRD_SECONDS)


async def with_tenant_of_uninstalled(harness: TenancyHarness, kind: RESTMapping) -> Fleet:
    """Return a fleet with a Tenant `a` that was ready, and whose kind was uninstalled then."""
    await harness.environment.install_crds(definition(kind))
    fleet = await Fleet.make(harness)
    await fleet.create(
        Tenant, "a", {"uid": "a", "templateRef": "none", "manifests": [manifest(kind)]}
    )
    await fleet.ready("a")
    await uninstall(harness, kind)
    await fleet.until(Tenant, "a", "Ready", "False", "ResourcesFailed")
    return fleet


@pytest.mark.matrix
async def test_h_a8_a_crd_deleted_and_installed_again_is_noticed_both_ways(
    harness: TenancyHarness,
) -> None:
    kind = gadgets("Widget")
    await harness.environment.install_crds(definition(kind))
    fleet = await Fleet.make(harness)
    lists = {"manifests": [manifest(kind)], "configMaps": [config_map("cm", "cm")]}
    await fleet.create(Tenant, "a", {"uid": "a", "templateRef": "none", **lists})
    await fleet.ready("a")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(children, "DISCOVERY_LAG", 0.0)  # no retry brings the tenant back
        await uninstall(harness, kind)
        told = await fleet.until(Tenant, "a", "Ready", "False", "ResourcesFailed")
        assert "the server does not serve example.com/v1 Widget; install its" in told.message
        assert await fleet.get(CONFIG_MAP, "cm") is not None
        await harness.idle(within=2 * STATUS_DEBOUNCE)
    assert harness.manager is not None
    [tenants] = [each for each in harness.manager.controllers if each.primary is Tenant]
    assert tenants.ready_in() is None
    await harness.environment.install_crds(definition(kind))
    # With events alone this takes a second; the limit is for slow machines.
    await fleet.there(kind, "it")
    await fleet.ready("a")


async def looks(harness: TenancyHarness, count: int) -> list[LogEntry]:
    """Return the manager's next requests, so many."""
    mark = harness.mark()

    async def requests() -> list[LogEntry]:
        return harness.requests(mark)

    return await harness.eventually(requests, lambda seen: len(seen) >= count)


async def test_h_a8_a_crd_that_is_away_costs_no_requests_of_tenants(
    harness: TenancyHarness,
) -> None:
    kind = gadgets("Gizmo")
    fleet = await with_tenant_of_uninstalled(harness, kind)
    await looks(harness, 8)  # the first follow each other sooner, and the status is written
    mark = harness.mark()
    found = await looks(harness, 5)
    assert fleet.writes(mark) == []
    assert {(each.verb, each.resource) for each in found} == {("get", "/apis")}
    waits = [later.at - earlier.at for earlier, later in itertools.pairwise(found)]
    assert min(waits) >= 0.9 * LOOKUP
    await harness.environment.install_crds(definition(kind))
    await fleet.ready("a")


async def test_h_a8_a_crd_that_comes_back_with_another_plural_is_watched_there(
    harness: TenancyHarness,
) -> None:
    kind = gadgets("Doohickey")
    fleet = await with_tenant_of_uninstalled(harness, kind)
    other = RESTMapping(kind.gvk, plural="doohickies", namespaced=True)
    await harness.environment.install_crds(definition(other))
    await fleet.there(other, "it")
    await fleet.ready("a")


async def test_h_a8_a_kind_that_discovery_shows_late_is_looked_for_until_it_does(
    harness: TenancyHarness,
) -> None:
    """An API server updates discovery after the CRD, and no event says that it has."""
    kind = gadgets("Sprocket")
    fleet = await with_tenant_of_uninstalled(harness, kind)

    discovery = Match(user="manager", resource="/apis*")
    lagging = harness.environment.proxy.add(StaleReads(), discovery, times=None)
    assert harness.manager is not None
    # The first answer is what discovery stays at. A lookup under way before the rule has none of it.
    while not lagging.fired:
        with contextlib.suppress(NoKindMatch):
            await harness.manager.live_client.mapper.discover(kind.gvk)
    other = RESTMapping(kind.gvk, plural="sprocketry", namespaced=True)
    await harness.environment.install_crds(definition(other))
    established = lagging.fired

    async def looked() -> int:
        return lagging.fired - established

    await harness.eventually(looked, lambda seen: seen >= 2)
    assert await fleet.get(other, "it") is None
    harness.environment.proxy.remove(lagging.id)
    await fleet.there(other, "it")
    await fleet.ready("a")
