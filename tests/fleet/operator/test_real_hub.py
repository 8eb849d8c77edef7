"""A kube-apiserver is the hub: its server-side apply, its garbage collection and its rules for CRDs and Secrets."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from apis.fleet import FleetConfig
from ctrlruntime.client.errors import Invalid, NotFound
from tests.backends import SharedServer

from .harness import OBJECTS, SCALE, SECRET, Hub, config, deployed, eventually, planes

pytestmark = pytest.mark.xdist_group("real-server")
NUMBERS = itertools.count()


@asynccontextmanager
async def real_hub(server: SharedServer) -> AsyncIterator[Hub]:
    """The shared kube-apiserver with the kind; it is left without it."""
    async with server.environment(users=("admin", "operator"), proxy=True) as environment:
        await environment.install_crds(FleetConfig)
        try:
            yield Hub(environment, environment.client("admin"))
        finally:
            await environment.uninstall_crds(FleetConfig)


@pytest.mark.criterion("FLEET-R32")
async def test_r06_r09_r32_deployed_and_removed_on_a_real_hub(real_server: SharedServer) -> None:
    number = next(NUMBERS)
    east, west = f"fleet-east-{number}", f"fleet-west-{number}"
    async with real_hub(real_server) as hub, planes(2) as (first, second):
        with pytest.raises(Invalid, match="there is one FleetConfig only: name it fleet"):
            await hub.client.create({**config(**SCALE), "metadata": {"name": "second"}})
        await hub.configure(**SCALE)
        async with hub.operator():
            await deployed(hub, **{east: first, west: second})
            assert await hub.objects(east) == await hub.objects(west) == OBJECTS
            await hub.label(east, None)
            await hub.until_torn_down(east)
            assert await hub.has(SECRET, "data-plane-kubeconfig", east)
        mark = hub.environment.proxy.log.mark()
        async with hub.operator():
            await hub.add(f"fleet-last-{number}", None)

            async def seen() -> bool:
                return f"fleet-last-{number}" in await hub.reasons()

            await eventually(seen, hub.config)
            assert (await hub.reasons())[west] == "SuccessfulDeployment"
            for name in (west, f"fleet-last-{number}"):
                await hub.label(name, None)
            log = hub.environment.proxy.log.since(mark).select(user="operator")
            assert log.select(verbs={"apply"}).total == 0  # a restart applies nothing
            await hub.until_torn_down(west)
        for name in (east, west, f"fleet-last-{number}"):
            await hub.client.delete("v1/Namespace", name)
        for name in (east, west, f"fleet-last-{number}"):

            async def gone(name: str = name) -> bool:
                try:
                    await hub.client.get("v1/Namespace", name)
                except NotFound:
                    return True
                return False

            await eventually(gone)
