"""Columns of kubectl: a count of zero is printed as 0 from the first status on, and a message with what is wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.json import Json
from tests.support.kubectl_columns import printed
from tests.tenancy.fleet import Fleet, Kind
from tests.tenancy.harness import TenancyHarness, config_map

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


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
async def test_h_a10_counts_of_zero_are_stored_with_the_first_status(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
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


async def test_15_4_the_status_of_a_registry_lists_the_columns_of_its_table(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness, columns=("uid", "url", "active", "plan"))
    await fleet.registry(extraValueMappings={"planId": "plan"})

    async def columns() -> list[str]:
        return (await fleet.read(TenantRegistry, "registry")).status.columns

    await harness.eventually(columns, lambda found: found == ["active", "plan", "uid", "url"])
    await fleet.patch(TenantRegistry, "registry", {"spec": {"extraValueMappings": {"x": "xx"}}})
    await fleet.until(TenantRegistry, "registry", "Ready", "False", "UnknownColumn")
    assert await columns() == ["active", "plan", "uid", "url"]
    fleet.sql("ALTER TABLE tenants ADD COLUMN xx")
    await harness.eventually(columns, lambda found: "xx" in found)
    for number in range(100):
        fleet.sql(f"ALTER TABLE tenants ADD COLUMN more{number}")
    await fleet.annotate(TenantRegistry, "registry", reconcile_now="again")
    await harness.eventually(columns, lambda found: found == [])


@pytest_asyncio.fixture(loop_scope="module")
async def own_harness(shared_server: None, tmp_path: Path) -> AsyncIterator[TenancyHarness]:
    """A server with TLS: without it kubectl sends no token."""
    async with TenancyHarness.start(tmp_path, tls=True) as harness:
        yield harness


async def test_15_4_kubectl_get_prints_valid_counts_with_zeros_and_a_message(
    own_harness: TenancyHarness,
) -> None:
    harness, fleet = own_harness, await Fleet.make(own_harness)
    environment, place = harness.environment, fleet.namespace
    await fleet.registry()
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await fleet.until(TenantRegistry, "registry", "Ready", "True")
    waits = await fleet.until(TenantTemplate, "app", "Applied", "False", "NoTenants")
    zeros = await printed(environment, TenantTemplate, "app", place)
    assert {key: zeros[key] for key in ("VALID", "TOTAL", "UPDATED", "READY", "FAILED")} == {
        "VALID": "True",
        "TOTAL": "0",
        "UPDATED": "0",
        "READY": "0",
        "FAILED": "0",
    }
    assert (zeros["APPLIED"], zeros["MESSAGE"]) == ("False", waits.message)

    fleet.rows("a", "b")
    fleet.row("c", active=2)
    bad = config_map("bad", "{{ .uid }}-bad", {"a/b": "not a key"})
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm"), bad])
    await fleet.until(Tenant, "a-app", "Ready", "False", "ResourcesFailed")
    await fleet.until(Tenant, "b-app", "Ready", "False", "ResourcesFailed")

    async def registry() -> dict[str, str]:
        return await printed(environment, TenantRegistry, "registry", place)

    def counted(cells: dict[str, str]) -> bool:
        known = cells["FAILED"] == "2" and "rows are active" in cells["MESSAGE"]
        return known and cells["VALID"] == "False"  # once the row with no known state was read

    shown = await harness.eventually(registry, counted)
    assert {key: shown[key] for key in ("TEMPLATES", "DESIRED", "READY", "VALID")} == {
        "TEMPLATES": "1",
        "DESIRED": "2",
        "READY": "0",
        "VALID": "False",
    }
    ready = await fleet.until(TenantRegistry, "registry", "Ready", "True")
    assert ready.message
    assert shown["MESSAGE"] == ready.message

    async def template() -> dict[str, str]:
        return await printed(environment, TenantTemplate, "app", place)

    shown = await harness.eventually(template, lambda cells: cells["FAILED"] == "2")
    assert {key: shown[key] for key in ("VALID", "TOTAL", "UPDATED", "READY")} == {
        "VALID": "True",
        "TOTAL": "2",
        "UPDATED": "2",
        "READY": "0",
    }
    tenant = await printed(environment, Tenant, "a-app", place)
    assert {key: tenant[key] for key in ("READY", "DESIRED", "FAILED", "SKIPPED")} == {
        "READY": "1",
        "DESIRED": "2",
        "FAILED": "1",
        "SKIPPED": "0",
    }
    assert (tenant["UID"], tenant["CONDITIONS"]) == ("a", "ResourcesFailed")
    assert "a/b" in tenant["MESSAGE"]

    unusable = config_map("cm", "{{ .uid", {})
    await fleet.template(configMaps=[unusable])
    await fleet.until(TenantTemplate, "app", "Valid", "False")
    assert (await template())["VALID"] == "False"
