"""While a deletion is held, conditions and counts of a registry do not contradict each other."""

from __future__ import annotations

from pathlib import Path

import pytest

from apis.tenancy import TenantRegistry
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import TenancyHarness, config_map

pytestmark = pytest.mark.criterion("SIM-F2")


async def test_tenants_without_rows_are_not_synced_and_not_counted_as_ready(
    tmp_path: Path,
) -> None:
    async with TenancyHarness.start(tmp_path) as harness:
        fleet = await Fleet.make(harness)
        fleet.rows("a", "b", "c")
        await fleet.registry()
        await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
        await fleet.ready("a-app", "b-app", "c-app")
        await fleet.until(TenantRegistry, "registry", "TenantsSynced", "True", "Synced")
        fleet.sql("DELETE FROM tenants WHERE uid <> 'a'")
        why = "TooManyDeletions"
        await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", why)
        found = await fleet.until(TenantRegistry, "registry", "TenantsSynced", "False", why)
        assert "see the condition DeletionsHeld" in found.message
        status = (await fleet.read(TenantRegistry, "registry")).status
        assert (status.desired, status.ready) == (1, 1)
        fleet.rows("b", "c")
        await fleet.until(TenantRegistry, "registry", "TenantsSynced", "True", "Synced")
        status = (await fleet.read(TenantRegistry, "registry")).status
        assert (status.desired, status.ready) == (3, 3)
