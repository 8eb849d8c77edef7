"""The real servers that tests share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import Forbidden
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.assets import OLDEST_SUPPORTED
from ctrlruntime.envtest.backends import existing
from ctrlruntime.envtest.crds import CRD
from ctrlruntime.envtest.users import User, administrator
from tests.backends import SharedServer

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


async def test_an_environment_around_the_shared_server_has_its_own_users(
    real_server: SharedServer,
) -> None:
    assert real_server.version >= OLDEST_SUPPORTED
    async with real_server.environment(users=["boss", User(name="nobody")], proxy=True) as env:
        await env.client("boss").list(CONFIG_MAP, "default")
        with pytest.raises(Forbidden):
            await env.client("nobody").list(CONFIG_MAP, "default")
        rows = [(row.user, row.verb, row.code) for row in env.proxy.log.counts()]
        assert rows == [("boss", "list", 200), ("nobody", "list", 403)]


@pytest.mark.parametrize("proxy", [False, True])
async def test_an_administrator_by_certificate_lends_it_to_the_users_of_an_environment(
    real_server: SharedServer, proxy: bool
) -> None:
    identity = real_server.backend.certified(administrator("lender"))
    known = replace(real_server.config, auth=identity.auth())
    users: list[str | User] = ["boss", User(name="nobody", groups=("test",))]
    async with Environment(existing(known), users=users, proxy=proxy) as around:
        await around.client("boss").list(CONFIG_MAP, "default")
        with pytest.raises(Forbidden, match="nobody"):
            await around.client("nobody").list(CONFIG_MAP, "default")


async def test_what_a_server_lacks_is_found_out(real_server: SharedServer) -> None:
    async with real_server.environment() as env:
        assert await env.serves(CONFIG_MAP)
        assert not await env.serves(GroupVersionKind("nowhere.example.com", "v1", "Thing"))


async def test_the_server_outlives_the_environments_around_it(real_server: SharedServer) -> None:
    for _ in range(2):
        async with real_server.environment() as env:
            await env.client().list(CONFIG_MAP, "default")
    async with Client.connect(real_server.config) as client:
        await client.list(CONFIG_MAP, "default")


@pytest.fixture
def separate_server(request: pytest.FixtureRequest, backend_name: str) -> SharedServer:
    """Return the apiextensions-apiserver that `--backend apiextensions` starts."""
    if backend_name != "apiextensions":
        pytest.skip("only with --backend apiextensions")
    server: SharedServer = request.getfixturevalue("apiextensions_server")
    return server


async def test_apiextensions_apiserver_serves_definitions(separate_server: SharedServer) -> None:
    assert separate_server.version >= (1, 36)
    async with separate_server.environment() as env:
        await env.client().list(CRD)
    assert set(separate_server.backend.processes) == {"apiextensions-apiserver", "etcd"}


async def test_alone_it_starts_its_own_server(separate_server: SharedServer) -> None:
    users: list[str | User] = ["boss", User(name="nobody")]
    async with Environment("apiextensions", users=users) as env:
        processes = env.backend.processes  # type: ignore[attr-defined]
        assert set(processes) == {"apiextensions-apiserver", "kube-apiserver", "etcd"}
        await env.client("boss").list(CRD)
        with pytest.raises(Forbidden):
            await env.client("nobody").list(CRD)
    assert not any(process.running for process in processes.values())


@pytest.mark.criterion("EN-02")
async def test_kinds_are_in_discovery_when_install_returns(
    real_server: SharedServer, apiextensions_server: SharedServer
) -> None:
    async with apiextensions_server.environment() as env:
        for number in range(3):
            group = f"discovery{number}.envtest.example.com"
            crd = definition(group)
            await env.install_crds(crd)
            try:
                async with Client.connect(env.config()) as fresh:
                    kind = GroupVersionKind(group, "v1", "Found")
                    if apiextensions_server is real_server:  # the other has no index of groups
                        index = await fresh.transport.request("GET", "/apis")
                        assert group.encode() in index.body
                        assert (await fresh.mapper.resolve(kind)).plural == "founds"
                    answer = await fresh.transport.request("GET", f"/apis/{group}/v1")
                    assert b'"founds"' in answer.body
            finally:
                await env.uninstall_crds(crd)


def definition(group: str) -> dict[str, Any]:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"founds.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"plural": "founds", "kind": "Found"},
            "versions": [version],
        },
    }
