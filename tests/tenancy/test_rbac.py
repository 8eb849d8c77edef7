"""The manager runs with exactly the generated role: nothing is forbidden to it."""

from pathlib import Path

import pytest

from tests.tenancy.harness import CONFIG_MAP, TenancyHarness, config_map


@pytest.mark.criterion("rbac")
async def test_the_generated_role_is_enough_for_a_tenants_whole_life(tmp_path: Path) -> None:
    async with TenancyHarness.start(tmp_path, nodes=True) as harness:
        start = harness.mark()
        harness.rows("a", "b")
        await harness.registry()
        await harness.template()
        await harness.ready("a-web-app", "b-web-app")
        await harness.client.delete(CONFIG_MAP, "a-settings", namespace=harness.namespace)
        await harness.eventually(lambda: harness.get(CONFIG_MAP, "a-settings"))
        harness.row("b", active=0)
        await harness.gone(CONFIG_MAP, "b-settings")
        assert harness.counts(start).select(code=403).total == 0


@pytest.mark.criterion("rbac")
async def test_a_kind_the_role_lacks_fails_its_resource_and_no_other(tmp_path: Path) -> None:
    async with TenancyHarness.start(tmp_path, denied=["endpoints"]) as harness:
        harness.rows("a")
        await harness.registry()
        endpoints = {
            "id": "other",
            "nameTemplate": "{{ .uid }}-other",
            "spec": {"apiVersion": "v1", "kind": "Endpoints"},
        }
        await harness.template(
            "with-other", manifests=[endpoints], configMaps=[config_map("cm", "{{ .uid }}-cm")]
        )
        await harness.template(configMaps=[config_map("cm", "{{ .uid }}-other")])
        await harness.ready("a-web-app")
        condition = await harness.condition("a-with-other", "Ready", "False")
        assert "other (v1 Endpoints cannot be watched" in condition.message
        granted = await harness.condition("a-with-other", "PermissionsGranted", "False")
        assert "--resource=endpoints" in granted.message
        await harness.eventually(lambda: harness.get(CONFIG_MAP, "a-cm"))
