"""A tenant that goes before its values were drawn: its hooks get some, and it goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from apis.tenancy import Tenant
from internal.tenancy.shared.labels import FINALIZER
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import TenancyHarness
from tests.tenancy.test_hooks import end, hook

PAUSED = "ctrlruntime.dev/paused"


def paused_tenant(fleet: Fleet) -> dict[str, Any]:
    """A Tenant with a hook of removal and a value to draw, which nothing is done for yet."""
    backup = hook("BeforeDelete", "backup")
    return {
        "apiVersion": Tenant.gvk().api_version,
        "kind": "Tenant",
        "metadata": {
            "name": "a-app",
            "namespace": fleet.namespace,
            "annotations": {PAUSED: "true"},
            "finalizers": [FINALIZER],
        },
        "spec": {
            "uid": "a",
            "templateRef": "app",
            "hooks": [backup],
            "generate": {"password": {"length": 16}},
        },
    }


async def test_a_tenant_goes_whose_values_were_never_drawn(tmp_path: Path) -> None:
    async with TenancyHarness.start(tmp_path) as harness:
        fleet = await Fleet.make(harness)
        await harness.client.create(paused_tenant(fleet))
        await harness.client.delete(Tenant, "a-app", namespace=fleet.namespace)
        resumed = {"metadata": {"annotations": {PAUSED: None}}}
        await harness.client.patch(Tenant, "a-app", resumed, namespace=fleet.namespace)
        await end(fleet, "a-backup")
        await fleet.gone(Tenant, "a-app")
        assert await fleet.find(Tenant, "a-app") is None
