"""A pass that waited for the kinds of its tenant applies what the tenant is by then."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping
from pathlib import Path

import pytest

from apis.tenancy import Tenant
from ctrlruntime.envtest.proxy.requests import WRITES
from internal.tenancy.objects.target_clusters import KindMappings
from internal.tenancy.tenant.kinds import TenantKinds
from tests.tenancy.harness import CONFIG_MAP, TenancyHarness, config_map

pytestmark = pytest.mark.criterion("SIM-F2")


async def test_nothing_older_is_applied_after_a_long_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits, over = asyncio.Event(), asyncio.Event()
    mappings = TenantKinds.mappings

    async def slow(
        self: TenantKinds, tenant: Tenant, annotations: Mapping[str, str], user: Hashable
    ) -> KindMappings:
        found = await mappings(self, tenant, annotations, user)
        waits.set()
        await over.wait()
        return found

    monkeypatch.setattr(TenantKinds, "mappings", slow)
    async with TenancyHarness.start(tmp_path) as harness:
        harness.row("a", plan="old")
        await harness.registry()
        entry = config_map("base", "{{ .uid }}-base", {"plan": "{{ .planId }}"})
        await harness.template(configMaps=[entry])
        await waits.wait()
        since = harness.environment.proxy.log.mark()
        harness.row("a", plan="new")
        assert harness.manager is not None
        cache = harness.manager.cache

        async def is_changed() -> bool:
            found = cache.entry(Tenant, "a-web-app", namespace=harness.namespace)
            return found is not None and "new" in str(found.field("spec"))

        await harness.eventually(is_changed, bool)
        over.set()
        await harness.ready("a-web-app")
        found = await harness.get(CONFIG_MAP, "a-base")
        assert found is not None
        assert found["data"] == {"plan": "new"}
        writes = [
            each.verb
            for each in harness.environment.proxy.log.entries(since)
            if each.resource == "configmaps" and each.verb in WRITES
        ]
        assert len(writes) == 1
