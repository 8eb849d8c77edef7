"""Errors of the first hour say what to write instead."""

from __future__ import annotations

import asyncio
import gc
import re
import warnings
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from ctrlruntime import (
    ApiModel,
    Builder,
    Client,
    ClientOptions,
    Cluster,
    Config,
    ControllerOptions,
    Desired,
    GroupVersionKind,
    Manager,
    ManagerOptions,
    Resource,
    TransportOptions,
)
from ctrlruntime.envtest import Environment
from tests.manager.support import fails_for_want_of, starting

pytestmark = pytest.mark.criterion("D-17")

CONFIG = Config(host="http://127.0.0.1:9")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
MANIFEST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


class SiteSpec(ApiModel):
    """A spec."""


class SiteStatus(ApiModel):
    """A status."""


class Site(Resource[SiteSpec, SiteStatus], group="example.com", version="v1"):
    """A kind that no server has."""


def anything(value: object) -> Any:  # noqa: ANN401 - for what a type checker would refuse
    """Return the value as what is accepted anywhere."""
    return value


ERRORS: dict[str, tuple[Callable[[], object], str]] = {
    "Desired, a class": (
        lambda: Desired(mapping=anything(Site), manifest=MANIFEST),
        "Desired(mapping=Site) is a class: write mapping=Site.mapping()",
    ),
    "Desired, a GVK": (
        lambda: Desired(mapping=anything(DEPLOYMENT), manifest=MANIFEST),
        'mapping=BUILTIN[GroupVersionKind("apps", "v1", "Deployment")]',
    ),
    "Desired, a text": (
        lambda: Desired(mapping=anything("apps/v1/Deployment"), manifest=MANIFEST),
        'mapping=BUILTIN[GroupVersionKind("apps", "v1", "Deployment")]',
    ),
    "Desired, a kind that is not built in": (
        lambda: Desired(mapping=anything("example.com/v1/Other"), manifest=MANIFEST),
        'mapping=RESTMapping(GroupVersionKind("example.com", "v1", "Other"), "others", True)',
    ),
    "Desired, an object": (
        lambda: Desired(mapping=Site.mapping(), manifest=anything(Site(spec=SiteSpec()))),
        "manifest=obj.to_manifest()",
    ),
    "Desired, no name": (
        lambda: Desired(mapping=Site.mapping(), manifest={"metadata": {}}),
        "metadata.name",
    ),
    "Manager, no await": (lambda: Manager(anything(Config.load())), "write await Config.load()"),
    "Client, no await": (
        lambda: Client.connect(anything(Config.load())),
        "write await Config.load()",
    ),
    "Cluster, no await": (
        lambda: Cluster("a", anything(Config.load()), fence=None),
        "write await Config.load()",
    ),
    "Client, a path": (
        lambda: Client.connect(anything(Path("kubeconfig"))),
        "write await Config.load('kubeconfig')",
    ),
    "Client, a URL": (
        lambda: Client.connect(anything("https://10.0.0.1")),
        "write Config(host='https://10.0.0.1')",
    ),
    "Client, nothing": (lambda: Client.connect(anything(None)), "write await Config.load()"),
    "Manager, nothing": (lambda: Manager(anything(None)), "write await Config.load()"),
    "Client, ClientOptions": (
        lambda: Client.connect(CONFIG, anything(ClientOptions())),
        "write Client.connect(config, options.transport, defaults=options.defaults())",
    ),
    "Client, ManagerOptions": (
        lambda: Client.connect(CONFIG, anything(ManagerOptions())),
        "write Client.connect(config, options.client.transport",
    ),
    "Client, a dict": (
        lambda: Client.connect(CONFIG, anything({"retries": 3})),
        "write TransportOptions(retries=3)",
    ),
    "Client, defaults": (
        lambda: Client.connect(CONFIG, defaults=anything(ClientOptions())),
        "write defaults=options.defaults()",
    ),
    "Manager, ClientOptions": (
        lambda: Manager(CONFIG, anything(ClientOptions())),
        "write ManagerOptions(client=ClientOptions(...))",
    ),
    "Manager, TransportOptions": (
        lambda: Manager(CONFIG, anything(TransportOptions())),
        "write ManagerOptions(client=ClientOptions(transport=TransportOptions(...)))",
    ),
    "Manager, ControllerOptions": (
        lambda: Manager(CONFIG, anything(ControllerOptions())),
        "write ManagerOptions(controller=ControllerOptions(...))",
    ),
    "Manager, a dict": (
        lambda: Manager(CONFIG, anything({"name": "a"})),
        "write ManagerOptions(name='a')",
    ),
}


@pytest.mark.parametrize(("wrong", "instead"), ERRORS.values(), ids=ERRORS)
async def test_a_wrong_argument_is_refused_with_the_right_one(
    wrong: Callable[[], object], instead: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a coroutine that is never awaited among them
        with pytest.raises((TypeError, ValueError), match=re.escape(instead)) as caught:
            wrong()
        del caught
        gc.collect()


CALLS: dict[str, Callable[[Client], Awaitable[object]]] = {
    "get": lambda client: client.get(Site, "a", namespace="default"),
    "list": lambda client: client.list(Site),
    "create": lambda client: client.create(
        Site.from_manifest({"metadata": {"name": "a", "namespace": "default"}})
    ),
    "patch": lambda client: client.patch(Site, "a", {}, namespace="default"),
    "delete": lambda client: client.delete(Site, "a", namespace="default"),
    "watch": lambda client: anext(aiter(client.watch(Site))),
    "by name": lambda client: client.get("example.com/v1/Site", "a", namespace="default"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
async def test_a_kind_without_a_crd_is_named_with_how_to_install_it(
    call: Callable[[Client], Awaitable[object]],
) -> None:
    async with Environment() as env:
        with pytest.raises(Exception, match=r"example\.com/v1") as caught:
            await call(env.client())
        assert "kubectl apply -f config/crd/bases" in str(caught.value)
        assert "install_crds" in str(caught.value)
        with pytest.raises(Exception, match="configmaps") as missing:
            await env.client().get("v1/ConfigMap", "a", namespace="default")
        assert "config/crd" not in str(missing.value)


async def test_a_controller_of_a_kind_without_a_crd_ends_with_how_to_install_it() -> None:
    async with Environment() as env:
        options = ManagerOptions(
            metrics_bind_address="0",
            health_bind_address="0",
            controller=ControllerOptions(cache_sync_timeout=3600),
        )
        manager = Manager(env.config(), options)

        async def reconcile(request: object) -> None:
            """Do nothing."""

        Builder(manager).for_(Site).build(reconcile)
        async with starting(manager) as start:
            with pytest.raises(Exception, match="kubectl apply -f config/crd/bases"):
                await fails_for_want_of(manager, manager.cache.informer(Site), start, 3600)


def test_a_client_of_another_loop_is_refused_with_how_to_make_one() -> None:
    async def use(client: Client) -> None:
        await client.list("v1/Namespace")

    env = Environment("embedded-process")
    with asyncio.Runner() as first, asyncio.Runner() as second:
        first.run(env.start())
        client = env.client()
        first.run(use(client))
        with pytest.raises(RuntimeError, match=re.escape("Client.connect(environment.config())")):
            second.run(use(client))
        first.run(env.stop())
