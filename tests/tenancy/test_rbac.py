"""The manager runs with exactly the generated role: nothing is forbidden to it."""

from pathlib import Path

import pytest

from tests.tenancy.harness import CONFIG_MAP, World, config_map


@pytest.mark.criterion("rbac")
async def test_the_generated_role_is_enough_for_a_tenants_whole_life(tmp_path: Path) -> None:
    async with World.start(tmp_path, nodes=True) as world:
        start = world.mark()
        world.rows("a", "b")
        await world.registry()
        await world.template()
        await world.ready("a-web-app", "b-web-app")
        await world.client.delete(CONFIG_MAP, "a-settings", namespace=world.namespace)
        await world.eventually(lambda: world.get(CONFIG_MAP, "a-settings"))
        world.row("b", active=0)
        await world.gone(CONFIG_MAP, "b-settings")
        assert world.counts(start).select(code=403).total == 0


@pytest.mark.criterion("rbac")
async def test_a_kind_the_role_lacks_fails_its_resource_and_no_other(tmp_path: Path) -> None:
    async with World.start(tmp_path, denied=["endpoints"]) as world:
        world.rows("a")
        await world.registry()
        endpoints = {
            "id": "other",
            "nameTemplate": "{{ .uid }}-other",
            "spec": {"apiVersion": "v1", "kind": "Endpoints"},
        }
        await world.template(
            "with-other", manifests=[endpoints], configMaps=[config_map("cm", "{{ .uid }}-cm")]
        )
        await world.template(configMaps=[config_map("cm", "{{ .uid }}-other")])
        await world.ready("a-web-app")
        condition = await world.condition("a-with-other", "Ready", "False")
        assert "other (v1 Endpoints cannot be watched" in condition.message
        granted = await world.condition("a-with-other", "PermissionsGranted", "False")
        assert "--resource=endpoints" in granted.message
        await world.eventually(lambda: world.get(CONFIG_MAP, "a-cm"))
