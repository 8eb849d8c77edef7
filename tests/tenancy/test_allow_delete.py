"""The word that lets deletions through the guard, when they do not succeed at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from apis.tenancy import TenantRegistry
from ctrlruntime.envtest.proxy import Fail, Match
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import TenancyHarness, config_map

TENANTS = "tenants.tenancy.ctrlruntime.dev"


@pytest.mark.criterion("guard")
async def test_a_deletion_that_fails_at_first_needs_no_second_word(tmp_path: Path) -> None:
    """The word is taken away before the deletions; what it let go is tried again until it is gone."""
    async with TenancyHarness.start(tmp_path) as harness:
        fleet = await Fleet.make(harness)
        fleet.rows("a", "b")
        await fleet.registry()
        await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
        await fleet.ready("a-app", "b-app")
        refusal = harness.environment.proxy.add(
            Fail(500), Match(user="manager", verb="delete", resource=TENANTS), times=2
        )
        fleet.delete_row("a")
        fleet.delete_row("b")
        await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", "EmptyResult")
        await fleet.allow_delete(2)
        await harness.eventually(fleet.tenants, lambda seen: seen == [])
        assert refusal.fired == 2
        registry = await fleet.read(TenantRegistry, "registry")
        assert not registry.metadata.annotations
