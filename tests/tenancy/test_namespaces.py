"""A manager that watches some namespaces only."""

from pathlib import Path

from ctrlruntime.cache.cache import CacheOptions
from tests.tenancy.harness import CONFIG_MAP, TenancyHarness, config_map


async def test_a_resource_outside_the_watched_namespaces_fails_and_reports_it(
    tmp_path: Path,
) -> None:
    async with TenancyHarness.start(tmp_path, manager=False) as harness:
        harness.cache = CacheOptions(namespaces=(harness.namespace,))
        await harness.start_manager()
        harness.rows("a")
        await harness.registry()
        outside = config_map("outside", "{{ .uid }}-cm", targetNamespace="elsewhere")
        inside = config_map("inside", "{{ .uid }}-cm")
        await harness.template(configMaps=[outside, inside])
        condition = await harness.condition("a-web-app", "Ready", "False", "ResourcesFailed")
        assert "'elsewhere' is not watched" in condition.message
        assert await harness.get(CONFIG_MAP, "a-cm") is not None
        assert await harness.get(CONFIG_MAP, "a-cm", namespace="elsewhere") is None
