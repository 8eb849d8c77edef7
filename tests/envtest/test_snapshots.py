"""A server that starts from what another one held."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import AlreadyExists, Gone, Invalid
from ctrlruntime.envtest.crds import install_crds
from ctrlruntime.envtest.server import APIServer, ServerOptions
from ctrlruntime.envtest.server.snapshot import Snapshot
from tests.support.waiting import eventually

SERVICE = BUILTIN[GroupVersionKind.parse("v1", "Service")]
CONFIG_MAP = BUILTIN[GroupVersionKind.parse("v1", "ConfigMap")]
SPEC = {"type": "object", "required": ["size"], "properties": {"size": {"type": "integer"}}}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC}}},
            }
        ],
    },
}


def widget(name: str, **spec: object) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def service(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"ports": [{"port": 80}]},
    }


@pytest.fixture
async def snapshot() -> Snapshot:
    async with APIServer() as server, Client.connect(Config(host=server.url)) as client:
        await install_crds(client, [DEFINITION])
        await client.create(widget("a", size=1))
        await client.create(service("a"))
        return server.snapshot()


async def test_kinds_objects_and_allocations_are_there(snapshot: Snapshot) -> None:
    async with (
        APIServer(ServerOptions(snapshot=snapshot)) as server,
        Client.connect(Config(host=server.url)) as client,
    ):
        found = await client.get(
            GroupVersionKind("example.com", "v1", "Widget"), "a", namespace="default"
        )
        assert found["spec"] == {"size": 1}
        with pytest.raises(AlreadyExists):
            await client.create(widget("a", size=1))
        with pytest.raises(Invalid, match="size"):
            await client.create(widget("b"))
        old = await client.get(SERVICE, "a", namespace="default")
        new = await client.create(service("b"))
        assert old["spec"]["clusterIP"] != new["spec"]["clusterIP"]
        assert int(new["metadata"]["resourceVersion"]) > snapshot.revision


async def test_servers_of_one_snapshot_do_not_see_each_other(snapshot: Snapshot) -> None:
    options = ServerOptions(snapshot=snapshot)
    async with APIServer(options) as one, APIServer(options) as other:
        async with Client.connect(Config(host=one.url)) as client:
            await client.delete(
                GroupVersionKind("example.com", "v1", "Widget"), "a", namespace="default"
            )
            await client.create(service("b"))
        async with Client.connect(Config(host=other.url)) as client:
            widgets = await client.list(GroupVersionKind("example.com", "v1", "Widget"))
            assert [each["metadata"]["name"] for each in widgets] == ["a"]
            first = await client.create(service("b"))
        async with Client.connect(Config(host=one.url)) as client:
            same = await client.get(SERVICE, "b", namespace="default")
            assert first["spec"]["clusterIP"] == same["spec"]["clusterIP"], "allocations are copies"


async def test_a_watch_from_before_the_snapshot_is_gone_and_one_from_then_on_goes_on(
    snapshot: Snapshot,
) -> None:
    async with (
        APIServer(ServerOptions(snapshot=snapshot)) as server,
        Client.connect(Config(host=server.url)) as client,
    ):
        with pytest.raises(Gone):
            await anext(client.watch(CONFIG_MAP, resource_version="1"))
        config = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "x", "namespace": "default"},
        }
        await client.create(config)
        events = client.watch(CONFIG_MAP, resource_version=str(snapshot.revision))
        async with contextlib.aclosing(events):
            kind, found = await anext(events)
        assert (kind, found["metadata"]["name"]) == ("ADDED", "x")


async def test_garbage_is_collected_of_owners_from_the_snapshot(snapshot: Snapshot) -> None:
    async with (
        APIServer(ServerOptions(snapshot=snapshot)) as server,
        Client.connect(Config(host=server.url)) as client,
    ):
        kind = GroupVersionKind("example.com", "v1", "Widget")
        owner = await client.get(kind, "a", namespace="default")
        reference = {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "name": "a",
            "uid": owner["metadata"]["uid"],
        }
        await client.create(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "x", "namespace": "default", "ownerReferences": [reference]},
            }
        )
        await client.delete(kind, "a", namespace="default")
        assert (
            await eventually(lambda: client.list(CONFIG_MAP, "default"), lambda items: not items)
            == []
        )
