"""A rollout counts every tenant that has its content, those that were made since it was decided as well."""

from __future__ import annotations

from pathlib import Path

from apis.tenancy import TenantTemplate
from tests.tenancy.harness import TenancyHarness
from tests.tenancy.rollout_fleet import NAMES, make


async def test_new_tenants_are_counted_by_a_complete_rollout(tmp_path: Path) -> None:
    async with TenancyHarness.start(tmp_path) as harness:
        fleet = await make(harness, maxSkew=1)
        await harness.idle()
        fleet.rows("z")
        await fleet.ready("z-app")
        await harness.idle()
        found = (await fleet.read(TenantTemplate, "app")).status.rollout
        assert found is not None
        assert (found.total, found.updated) == (len(NAMES) + 1, len(NAMES) + 1)
