"""What the server allocates to a Service, or drops from an object, where a control writes it again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ctrlruntime.api import BUILTIN, GroupVersionKind
from ctrlruntime.cache.cache import Cache
from ctrlruntime.client.client import Client
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.users import administrator
from ctrlruntime.resources import Action, Control, Desired, Owner
from ctrlruntime.resources.desired import PatchStrategy
from tests.backends import kube_apiserver

pytestmark = pytest.mark.timeout(300)

SERVICE = BUILTIN[GroupVersionKind("", "v1", "Service")]


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def env(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Environment]:
    users = (administrator("admin"),)
    async with contextlib.AsyncExitStack() as stack:
        environment = Environment("embedded", users=users)
        if request.param == "kube-apiserver":
            folder = tmp_path / "server"
            server = await asyncio.to_thread(stack.enter_context, kube_apiserver(folder))
            environment = server.environment(users=users)
        yield await stack.enter_async_context(environment)


@contextlib.asynccontextmanager
async def control_of(client: Client) -> AsyncIterator[Control]:
    cache = Cache(client)
    cache.declare(SERVICE, namespaces=["default"], track_manager="manager")
    await cache.start()
    await cache.wait_synced(60.0)
    yield Control(cache, field_manager="manager")
    await cache.stop()


def web(**spec: object) -> Desired:
    manifest = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"type": "NodePort", "selector": {"app": "web"}, **spec},
    }
    return Desired(mapping=SERVICE, manifest=manifest, strategy=PatchStrategy.REPLACE)


@pytest.mark.criterion("R-5")
async def test_a_replaced_service_keeps_addresses_and_node_ports(env: Environment) -> None:
    ports = [{"name": "http", "port": 80}, {"name": "dns", "port": 53, "protocol": "UDP"}]
    async with Client.connect(env.config("admin")) as client:
        head = {"apiVersion": "v1", "kind": "ConfigMap"}
        made = await client.create({**head, "metadata": {"name": "o", "namespace": "default"}})
        owner = Owner.of(made)
        async with control_of(client) as control:
            await control.ensure(web(ports=ports), owner)
            before = (await client.get(SERVICE, "web", namespace="default"))["spec"]
            changed = web(ports=ports[::-1], selector={"app": "other"})
            assert (await control.ensure(changed, owner)).action is Action.UPDATED
            after = await client.get(SERVICE, "web", namespace="default")
            assert (await control.ensure(changed, owner)).action is Action.UNCHANGED
        async with control_of(client) as control:  # a restart writes nothing
            assert (await control.ensure(changed, owner)).action is Action.UNCHANGED
        last = await client.get(SERVICE, "web", namespace="default")
    assert last["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]
    assert before["clusterIP"]
    assert after["spec"]["clusterIP"] == before["clusterIP"]
    assert after["spec"]["selector"] == {"app": "other"}
    given = [
        {each["name"]: each["nodePort"] for each in x["ports"]} for x in (before, after["spec"])
    ]
    assert given[0] == given[1]
