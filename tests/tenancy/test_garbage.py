"""Rows, templates and registries that go take their tenants and resources with them (C, D, J)."""

from pathlib import Path

import pytest

from apis.tenancy import Tenant
from tests.tenancy.harness import CONFIG_MAP, TenancyHarness, config_map


@pytest.mark.criterion("C1")
async def test_a_row_that_turns_inactive_takes_its_tenant_and_resources_with_it(
    tmp_path: Path,
) -> None:
    async with TenancyHarness.start(tmp_path) as harness:
        harness.rows("a", "b", "c")
        await harness.registry()
        await harness.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
        await harness.ready("a-web-app", "b-web-app", "c-web-app")
        harness.row("b", active=0)
        await harness.gone(Tenant.mapping(), "b-web-app")
        await harness.gone(CONFIG_MAP, "b-cm")
        assert await harness.get(CONFIG_MAP, "a-cm") is not None
        harness.row("b", active=1)
        await harness.ready("b-web-app")
