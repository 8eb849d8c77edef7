"""What no tenant could use is refused at the template or the registry, not at each tenant."""

from __future__ import annotations

import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from internal.tenancy.rows.row import mapping_problems
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, TenancyHarness, config_map
from tests.tenancy.test_plan import spec


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


@pytest.mark.asyncio(loop_scope="module")
async def test_a_bare_function_is_refused_at_the_template_and_reaches_no_tenant(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm", {"at": "first"})])
    await fleet.ready("a-app")
    for written, words in (
        ("{{ now }}", "the function 'now' is refused: it would give another result"),
        ("{{ randAlphaNum 8 }}", "keep the value in a column, or in a Secret that is made once"),
        ("{{ upper }}", "the function 'upper' has no arguments"),
    ):
        await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm", {"at": written})])
        await fleet.until(
            TenantTemplate, "app", "Valid", "False", "ValidationFailed", message=words
        )
        await fleet.until(
            TenantRegistry, "registry", "TenantsSynced", "False", message="is not rolled out"
        )
        found = await fleet.read(Tenant, "a-app")
        assert found.spec.config_maps[0].spec["data"] == {"at": "first"}
        await fleet.ready("a-app")

    # a variable of that name is a variable
    columns = {"planId": "plan", "now": "image"}
    await fleet.patch(TenantRegistry, "registry", {"spec": {"extraValueMappings": columns}})
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm", {"at": "{{ now }}"})])
    await fleet.until(TenantTemplate, "app", "Valid", "True", "ValidationPassed")
    await fleet.there(CONFIG_MAP, "a-cm", lambda seen: seen["data"] == {"at": "nginx:1"})


@pytest.mark.asyncio(loop_scope="module")
async def test_a_mapping_that_no_template_can_name_is_refused(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry(extraValueMappings={"bad-name": "plan"})
    found = await fleet.until(TenantRegistry, "registry", "Ready", "False", "InvalidMappings")
    assert "'bad-name' cannot be named in a template; use letters, digits and '_'" in found.message
    mappings = {"bad-name": None, "goodName": "plan"}
    await fleet.patch(TenantRegistry, "registry", {"spec": {"extraValueMappings": mappings}})
    await fleet.until(TenantRegistry, "registry", "Ready", "True")


@pytest.mark.parametrize(
    ("name", "usable"),
    [
        ("planId", True),
        ("plan_2", True),
        ("_x", True),
        ("bad-name", False),
        ("2plan", False),
        ("a.b", False),
        ("a b", False),
        ("", False),
    ],
)
def test_names_of_mappings(name: str, usable: bool) -> None:
    assert (mapping_problems(spec(**{name: "column"})) == []) is usable
