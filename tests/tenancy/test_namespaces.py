"""A manager that watches some namespaces only."""

from pathlib import Path

from ctrlruntime.cache.cache import CacheOptions
from tests.tenancy.harness import CONFIG_MAP, World, config_map


async def test_a_resource_outside_the_watched_namespaces_fails_and_says_so(tmp_path: Path) -> None:
    async with World.start(tmp_path, manager=False) as world:
        world.cache = CacheOptions(namespaces=(world.namespace,))
        await world.start_manager()
        world.rows("a")
        await world.registry()
        outside = config_map("outside", "{{ .uid }}-cm", targetNamespace="elsewhere")
        inside = config_map("inside", "{{ .uid }}-cm")
        await world.template(configMaps=[outside, inside])
        condition = await world.condition("a-web-app", "Ready", "False", "ResourcesFailed")
        assert "'elsewhere' is not watched" in condition.message
        assert await world.get(CONFIG_MAP, "a-cm") is not None
        assert await world.get(CONFIG_MAP, "a-cm", namespace="elsewhere") is None
