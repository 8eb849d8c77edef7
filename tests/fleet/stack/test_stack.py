"""The stack of a data plane: what goes to which server, whose it is there, and what removes it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from apis.fleet.labels import DATA_PLANE
from ctrlruntime.resources import OWNER
from tests.fleet.stack.harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    Fleet,
    change,
    config_map,
    deployment,
    fleet,
    gone,
    ready,
    tenant,
)


@pytest.fixture
async def servers(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with fleet(tmp_path) as made:
        yield made


@pytest.mark.criterion("FLEET-R21")
async def test_a_workload_and_what_it_names_are_on_the_hub_the_rest_on_the_data_plane(
    servers: Fleet,
) -> None:
    hub, plane = servers.hub, servers.plane
    since, on_hub = plane.mark(), hub.mark()
    async with servers.running():
        web = deployment(config="settings")
        await plane.client.create(tenant(web, config_map("settings"), config_map("notes")))
        found = await ready(plane)
        assert await plane.names(CONFIG_MAP) == {"notes"}
        assert await hub.names(CONFIG_MAP) == {"settings"}
        assert await hub.names(DEPLOYMENT) == {"web"}
        assert found.status.applied_resources == [
            "ConfigMap/default/notes@notes",
            "hub:ConfigMap/default/settings@settings",
            "hub:Deployment.apps/default/web@web",
        ]
        for kind, name in ((DEPLOYMENT, "web"), (CONFIG_MAP, "settings")):
            made = await hub.get(kind, name)
            assert made is not None
            metadata = made["metadata"]
            assert metadata["labels"][DATA_PLANE] == plane.id
            owner = f"Tenant.tenancy.ctrlruntime.dev/default/acme@{plane.id}"
            assert metadata["annotations"][OWNER] == owner
            assert "ownerReferences" not in metadata
        notes = await plane.get(CONFIG_MAP, "notes")
        assert notes is not None
        assert DATA_PLANE not in (notes["metadata"].get("labels") or {})
        assert (
            notes["metadata"]["annotations"][OWNER] == "Tenant.tenancy.ctrlruntime.dev/default/acme"
        )
        assert [each["uid"] for each in notes["metadata"]["ownerReferences"]] == [
            found.metadata.uid
        ]

        await gone(plane)
        assert await hub.names(DEPLOYMENT) == set()
        assert await hub.names(CONFIG_MAP) == set()
        assert await plane.names(CONFIG_MAP) == set()
    requested = plane.counts(since)
    assert requested.total
    assert not requested.select(resource="deployments").total, "a workload's kind on the data plane"
    assert not hub.counts(on_hub).select(resource="tenants").total


async def test_an_object_whose_route_changes_is_made_there_and_then_removed_here(
    servers: Fleet,
) -> None:
    hub, plane = servers.hub, servers.plane
    async with servers.running():
        apart = tenant(deployment(), config_map("settings"))
        together = tenant(deployment(config="settings"), config_map("settings"))
        await plane.client.create(apart)
        await ready(plane)
        assert (await plane.names(CONFIG_MAP), await hub.names(CONFIG_MAP)) == ({"settings"}, set())
        for manifest, expected in (
            (together, (set(), {"settings"})),
            (apart, ({"settings"}, set())),
        ):
            await change(plane, manifest)
            found = await ready(plane)
            assert (await plane.names(CONFIG_MAP), await hub.names(CONFIG_MAP)) == expected
            keys = [each for each in found.status.applied_resources if "settings" in each]
            where = "" if expected[0] else "hub:"
            assert keys == [f"{where}ConfigMap/default/settings@settings"]
