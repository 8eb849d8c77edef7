"""Columns of kubectl: a count of zero is printed as 0 from the first status on."""

from __future__ import annotations

from typing import Any

import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.json import Json
from tests.tenancy.fleet import Fleet, Kind
from tests.tenancy.harness import World, config_map

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def world(shared_world: World) -> World:
    return shared_world


def counts(kind: Kind, found: Json) -> dict[str, Any]:
    """The integer columns that kubectl prints for an object; None is printed as nothing."""
    shown: dict[str, Any] = {}
    for column in kind.crd()["spec"]["versions"][0]["additionalPrinterColumns"]:
        if column["type"] == "integer":
            value = found
            for part in column["jsonPath"].removeprefix(".").split("."):
                value = (value or {}).get(part)
            shown[column["name"]] = value
    return shown


@pytest.mark.criterion("H-A10")
async def test_h_a10_counts_of_zero_are_stored_with_the_first_status(world: World) -> None:
    fleet = await Fleet.make(world)
    await fleet.registry()
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await fleet.until(TenantRegistry, "registry", "Ready", "True")
    await fleet.until(TenantTemplate, "app", "Applied", "False", "NoTenants")
    registry = await fleet.get(TenantRegistry.mapping(), "registry")
    assert None not in counts(TenantRegistry, registry).values()
    assert registry["status"]["rows"] == {"total": 0, "active": 0, "inactive": 0, "invalid": 0}
    template = await fleet.get(TenantTemplate.mapping(), "app")
    assert counts(TenantTemplate, template) == {
        "Total": 0,
        "Updated": 0,
        "Ready": 0,
        "Failed": 0,
    }

    broken = [config_map("cm", "x", dependIds=["cm"])]
    await fleet.create(Tenant, "bad", {"uid": "bad", "templateRef": "none", "configMaps": broken})
    await fleet.until(Tenant, "bad", "Ready", "False", "DependencyError")
    tenant = await fleet.get(Tenant.mapping(), "bad")
    assert counts(Tenant, tenant) == {
        "Ready": 0,
        "Desired": 0,
        "Failed": 0,
        "Skipped": 0,
    }
    for name in ("failedResources", "skippedResources"):
        assert tenant["status"][name] == 0
