"""Rows, templates and registries that go take their tenants and resources with them (C, D, J)."""

from pathlib import Path

import pytest

from apis.tenancy import Tenant
from tests.tenancy.harness import CONFIG_MAP, World, config_map


@pytest.mark.criterion("C1")
async def test_a_row_that_turns_inactive_takes_its_tenant_and_resources_with_it(
    tmp_path: Path,
) -> None:
    async with World.start(tmp_path) as world:
        world.rows("a", "b", "c")
        await world.registry()
        await world.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
        await world.ready("a-web-app", "b-web-app", "c-web-app")
        world.row("b", active=0)
        await world.gone(Tenant.mapping(), "b-web-app")
        await world.gone(CONFIG_MAP, "b-cm")
        assert await world.get(CONFIG_MAP, "a-cm") is not None
        world.row("b", active=1)
        await world.ready("b-web-app")
