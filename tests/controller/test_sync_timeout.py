"""LV-2: `cache_sync_timeout` holds for kinds that may not be listed, and the probes name them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.errors import CacheSyncTimeout, NotSynced
from ctrlruntime.client.auth import StaticAuth
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.controller import Builder, ControllerOptions, Request, enqueue_object
from ctrlruntime.envtest.server import APIServer, ServerOptions
from ctrlruntime.envtest.server.options import User
from ctrlruntime.manager import Manager
from tests.manager.support import LONG, manager, starting
from tests.manager.test_manager import get
from tests.support.waiting import eventually, let_pass

pytestmark = pytest.mark.criterion("LV-2")

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
SECRET = GroupVersionKind("", "v1", "Secret")
RBAC = "rbac.authorization.k8s.io"
LIMIT = 3600.0
LIMITED = ControllerOptions(cache_sync_timeout=LIMIT)


@pytest.fixture
async def config() -> AsyncIterator[Config]:
    """How a user who may read ConfigMaps, and nothing else, reaches a server."""
    users = {"admin": User("admin", groups=("system:masters",)), "limited": User("limited")}
    role = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "limited"},
        "rules": [
            {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
        ],
    }
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "limited"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "limited"},
        "subjects": [{"kind": "User", "name": "limited", "apiGroup": RBAC}],
    }
    async with APIServer(ServerOptions(authorization="RBAC", tokens=users)) as server:
        admin = Config(host=server.url, auth=StaticAuth(token="admin"))
        async with Client.connect(admin) as client:
            await client.create(role)
            await client.create(binding)
        yield Config(host=server.url, auth=StaticAuth(token="limited"))


async def nothing(request: Request) -> None: ...


async def refused(subject: Manager) -> None:
    """Wait until the server has refused the list."""
    informer = subject.cache.informer(SECRET)
    await eventually(lambda: informer.last_error is not None)


@pytest.mark.parametrize("named_by", ["controller", "manager"])
async def test_a_kind_that_may_not_be_listed_ends_the_start_by_name(
    config: Config, named_by: str
) -> None:
    if named_by == "controller":
        subject = manager(config)
        Builder(subject).for_(CONFIG_MAP).owns(SECRET).options(LIMITED).build(nothing)
    else:
        subject = manager(config, controller=LIMITED)
        subject.cache.declare(SECRET)
    async with starting(subject) as start:
        await refused(subject)
        let_pass(LIMIT)
        with pytest.raises(
            CacheSyncTimeout, match=r"3600 s: v1, Kind=Secret: .*forbidden.*list and watch"
        ):
            await start
    assert not subject.elected.is_set()


async def test_an_optional_kind_that_may_not_be_listed_holds_nothing_up(config: Config) -> None:
    seen = asyncio.Event()

    async def reconcile(request: Request) -> None:
        with pytest.raises(NotSynced, match="forbidden"):  # never as if there were none
            subject.cache.list(SECRET)
        seen.set()

    subject = manager(config)
    builder = Builder(subject).for_(CONFIG_MAP).options(LIMITED).named("optional")
    builder.watches(SECRET, enqueue_object, optional=True).build(reconcile)
    with capture_logs() as logs:
        async with starting(subject):
            await refused(subject)
            let_pass(LIMIT)
            await asyncio.wait_for(subject.elected.wait(), LONG)
            assert (await get(subject.health_port, "/readyz"))[0] == 200
            controller = subject._controllers[0]
            controller.queue.add(Request("a", namespace="default"))
            await asyncio.wait_for(seen.wait(), LONG)
    lines = [line for line in logs if line["event"].startswith("an optional kind has not synced")]
    assert [line["kind"] for line in lines] == ["v1, Kind=Secret"]
    assert "forbidden" in lines[0]["error"]


async def test_readyz_names_the_kinds_that_have_not_synced(config: Config) -> None:
    subject = manager(config)
    subject.cache.declare(CONFIG_MAP)
    subject.cache.declare(SECRET)
    async with starting(subject):
        await refused(subject)
        await eventually(lambda: subject.cache.informer(CONFIG_MAP).synced)
        status, text = await get(subject.health_port, "/readyz")
    assert status == 500
    assert "[-]caches failed: not synced: v1, Kind=Secret (Forbidden)" in text
    assert "limited" not in text  # the message of the server is for the log
