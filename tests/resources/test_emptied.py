"""Lists and maps of a custom resource whose last item is given up by an apply."""

from __future__ import annotations

from typing import Any

import pytest

from apis.tenancy import Tenant
from ctrlruntime.cache.cache import Cache
from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.resources import Action, Control, Desired, Owner
from tests.resources.test_allocated import env  # noqa: F401 - the fixture of both servers

pytestmark = [pytest.mark.criterion("R-5"), pytest.mark.timeout(300)]


@pytest.mark.parametrize("last", [{}, {"variables": {}, "configMaps": []}], ids=["absent", "empty"])
async def test_an_emptied_list_or_map_is_applied_once(
    env: Environment,  # noqa: F811
    last: dict[str, Any],
) -> None:
    await env.install_crds(Tenant)
    async with Client.connect(env.config("admin")) as client:
        head = {"apiVersion": "v1", "kind": "ConfigMap"}
        made = await client.create({**head, "metadata": {"name": "o", "namespace": "default"}})
        owner, cache = Owner.of(made), Cache(client)
        mapping = Tenant.mapping()
        cache.declare(mapping, namespaces=["default"], track_manager="manager")
        await cache.start()
        await cache.wait_synced(60.0)
        control = Control(cache, field_manager="manager")

        def tenant(**spec: object) -> Desired:
            manifest = {
                "apiVersion": "tenancy.ctrlruntime.dev/v1",
                "kind": "Tenant",
                "metadata": {"name": "t", "namespace": "default"},
                "spec": {"uid": "a", "templateRef": "x", **spec},
            }
            return Desired(mapping=mapping, manifest=manifest)

        item = {"id": "c", "spec": {"apiVersion": "v1", "kind": "ConfigMap"}}
        await control.ensure(tenant(variables={"k": "v"}, configMaps=[item]), owner)
        assert (await control.ensure(tenant(**last), owner)).action is Action.UPDATED
        found = await client.get(mapping, "t", namespace="default")
        assert (await control.ensure(tenant(**last), owner)).action is Action.UNCHANGED
        again = await client.get(mapping, "t", namespace="default")
        await cache.stop()
    assert not found["spec"].get("variables")
    assert not found["spec"].get("configMaps")
    assert again["metadata"]["resourceVersion"] == found["metadata"]["resourceVersion"]
