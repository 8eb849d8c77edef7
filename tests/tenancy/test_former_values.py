"""Values that were drawn for a former tenant of the same name go with it: the next one draws its own."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from apis.tenancy import Tenant
from internal.tenancy.shared.labels import DRAWN_FOR, VALUES
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import SECRET, TenancyHarness
from tests.tenancy.test_generated_values import credentials, template

FORMER = "11111111-2222-3333-4444-555555555555"


async def test_a_tenant_waits_until_the_values_of_a_former_one_are_gone(tmp_path: Path) -> None:
    """The garbage collector is some time behind: a tenant that is made again at once finds the Secret."""
    async with TenancyHarness.start(tmp_path) as harness:
        fleet = await Fleet.make(harness)
        owner = {
            "apiVersion": Tenant.gvk().api_version,
            "kind": "Tenant",
            "name": "a-app",
            "uid": FORMER,
            "controller": True,
        }
        former: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {
                "name": "a-app-generated",
                "namespace": fleet.namespace,
                "labels": {VALUES: "true"},
                "annotations": {DRAWN_FOR: FORMER},
                "ownerReferences": [owner],
                "finalizers": ["example.com/held"],  # a collector takes it at once
            },
            "data": {"password": base64.b64encode(b"theirs").decode()},
        }
        await harness.client.create(former)
        fleet.row("a")
        await fleet.registry()
        await template(fleet, secrets=[credentials()])
        found = await fleet.until(Tenant, "a-app", "Ready", "False", "VariablesBuildError")
        assert "belongs to a former tenant of this name" in found.message
        assert await fleet.get(SECRET, "a-login") is None
        await harness.client.delete(SECRET, "a-app-generated", namespace=fleet.namespace)
        released = {"metadata": {"finalizers": None}}
        await harness.client.patch(SECRET, "a-app-generated", released, namespace=fleet.namespace)
        await fleet.ready("a-app")
        drawn = await fleet.get(SECRET, "a-app-generated")
        assert drawn["data"]["password"] != former["data"]["password"]
