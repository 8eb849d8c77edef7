"""Two data planes with a kube-apiserver as their hub, where garbage collection runs."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from apis.fleet.labels import DATA_PLANE
from tests.backends import SharedServer
from tests.fleet.stack.harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE,
    SERVICE,
    Fleet,
    Server,
    condition,
    config_map,
    deployment,
    entry,
    gone,
    ready,
    server,
    tenant,
)

PLACE = "stack-on-real-hub"


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    made = [tmp_path / name for name in ("hub", "one", "two")]
    for folder in made:
        folder.mkdir()
    return made


@pytest.mark.criterion("FLEET-R29")
async def test_planes_share_a_real_hub_and_the_second_waits_for_a_name_of_the_first(
    real_server: SharedServer, folders: list[Path]
) -> None:
    async with contextlib.AsyncExitStack() as opened:
        env = real_server.environment(users=("admin",), proxy=True, folder=folders[0])
        hub = Server(await opened.enter_async_context(env))
        first, second = [
            await opened.enter_async_context(server(folder, plane=True)) for folder in folders[1:]
        ]
        servers = Fleet(folders[0].parent, hub, [first, second], hub_user="admin")
        namespace: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Namespace",
            "metadata": {"name": PLACE},
        }
        for each in (hub, first, second):
            await each.client.create(namespace)
        opened.push_async_callback(hub.client.delete, NAMESPACE, PLACE)
        service = entry(
            "web-svc", "Service", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]}
        )
        resources = (deployment(config="s"), config_map("s"), config_map("notes"), service)
        made = tenant(*resources, namespace=PLACE)
        async with servers.running(first), servers.running(second):
            await first.client.create(made)
            await ready(first, namespace=PLACE)
            assert await first.names(CONFIG_MAP, PLACE) == {"notes"}
            assert await first.names(SERVICE, PLACE) == set()
            assert await hub.names(SERVICE, PLACE) == {"web-svc"}
            progressed = await hub.get(DEPLOYMENT, "web", PLACE)
            assert progressed is not None
            assert progressed["metadata"]["labels"][DATA_PLANE] == first.id
            assert "ownerReferences" not in progressed["metadata"]
            uid = progressed["metadata"]["uid"]

            await second.client.create(made)
            found = await condition(
                second, "Conflicted", "True", "ResourceConflict", namespace=PLACE
            )
            assert f"acme@{first.id}" in found.message
            kept = await hub.get(DEPLOYMENT, "web", PLACE)
            assert kept is not None
            assert kept["metadata"]["uid"] == uid
            assert kept["metadata"]["labels"][DATA_PLANE] == first.id

            await gone(first, namespace=PLACE)
            await ready(second, namespace=PLACE)
            taken = await hub.get(DEPLOYMENT, "web", PLACE)
            assert taken is not None
            assert taken["metadata"]["uid"] != uid
            assert taken["metadata"]["labels"][DATA_PLANE] == second.id
            await gone(second, namespace=PLACE)
            assert await hub.names(DEPLOYMENT, PLACE) == set()
            assert await hub.names(CONFIG_MAP, PLACE) == set()
