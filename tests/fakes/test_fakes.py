"""What tests expect of a fake client, from a server: FK-*. The embedded one beside the real one.

There is no fake client: what a test talks to is an API server over HTTP, so nothing is left to imitate.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.cache.cache import Cache
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import AlreadyExists, Conflict, Invalid, NotFound
from tests.client.support import (
    CONFIG_MAP,
    DEPLOYMENT,
    WIDGET,
    config_map,
    deployment,
    install_widgets,
)
from tests.support.waiting import eventually


@pytest.fixture
async def client(api_config: Config) -> AsyncIterator[Client]:
    async with Client.connect(api_config) as client:
        yield client


@pytest.fixture
async def widgets(client: Client) -> None:
    await install_widgets(client)


def widget(**parts: object) -> Manifest:
    metadata = {"name": "w", "namespace": "default"}
    return {"apiVersion": WIDGET.api_version, "kind": "Widget", "metadata": metadata, **parts}


@pytest.mark.criterion("FK-01")
class TestVersions:
    async def test_they_grow_with_each_change_and_only_then(self, client: Client) -> None:
        versions = []
        obj = await client.create(config_map("a", {"k": "0"}))
        versions.append(obj["metadata"]["resourceVersion"])
        for value in ("1", "1", "2"):
            obj = await client.update({**obj, "data": {"k": value}})
            versions.append(obj["metadata"]["resourceVersion"])
        first, second, same, third = map(int, versions)
        assert first < second == same < third

    async def test_an_old_one_conflicts_and_none_is_unconditional(self, client: Client) -> None:
        old = await client.create(config_map("a", {"k": "1"}))
        await client.update({**old, "data": {"k": "2"}})
        with pytest.raises(Conflict):
            await client.update({**old, "data": {"k": "3"}})
        await client.update(config_map("a", {"k": "4"}))
        assert (await client.get(CONFIG_MAP, "a", namespace="default"))["data"] == {"k": "4"}

    async def test_identity_and_generation_are_the_servers(
        self, client: Client, widgets: None
    ) -> None:
        made_up = {"uid": "mine", "creationTimestamp": "1999-01-01T00:00:00Z", "generation": 7}
        metadata = {"name": "w", "namespace": "default", **made_up}
        created = await client.create(widget(metadata=metadata, spec={"size": 1}))
        assert created["metadata"]["uid"] != "mine"
        assert not created["metadata"]["creationTimestamp"].startswith("1999")
        generations = [created["metadata"]["generation"]]
        for subresource, patch in (
            (None, {"metadata": {"labels": {"a": "b"}}}),
            ("status", {"status": {"ready": True}}),
            (None, {"spec": {"size": 2}}),
            (None, {"spec": {"size": 2}}),
        ):
            changed = await client.patch(
                WIDGET, "w", patch, namespace="default", subresource=subresource
            )
            generations.append(changed["metadata"]["generation"])
        assert generations == [1, 1, 1, 2, 2]

    async def test_a_name_is_taken_once_and_its_uid_never_comes_back(self, client: Client) -> None:
        first = await client.create(config_map("a"))
        with pytest.raises(AlreadyExists):
            await client.create(config_map("a"))
        await client.delete(CONFIG_MAP, "a", namespace="default")
        with pytest.raises((NotFound, Conflict)):  # some releases look at the uid first
            await client.update(first)
        second = await client.create(config_map("a"))
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        with pytest.raises(Conflict):
            await client.update(first)


@pytest.mark.criterion("FK-02")
class TestFinalizers:
    async def test_deleting_marks_and_the_last_one_taken_off_removes(self, client: Client) -> None:
        finalizers = ["example.com/one", "example.com/two"]
        await client.create(config_map("a", finalizers=finalizers))
        await client.delete(CONFIG_MAP, "a", namespace="default")
        marked = await client.get(CONFIG_MAP, "a", namespace="default")
        since = marked["metadata"]["deletionTimestamp"]
        await client.delete(CONFIG_MAP, "a", namespace="default")
        marked = await client.get(CONFIG_MAP, "a", namespace="default")
        assert marked["metadata"]["deletionTimestamp"] == since
        marked["metadata"]["finalizers"] = finalizers[1:]
        marked = await client.update(marked)
        assert marked["metadata"]["finalizers"] == finalizers[1:]
        await client.update({**marked, "metadata": {**marked["metadata"], "finalizers": []}})
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAP, "a", namespace="default")

    async def test_what_is_being_deleted_gets_no_new_one(self, client: Client) -> None:
        created = await client.create(config_map("a", finalizers=["example.com/one"]))
        await client.delete(CONFIG_MAP, "a", namespace="default")
        more = {"metadata": {"finalizers": ["example.com/one", "example.com/late"]}}
        with pytest.raises(Invalid, match="no new finalizers can be added"):
            await client.patch(CONFIG_MAP, "a", more, namespace="default")
        assert created["metadata"].get("deletionTimestamp") is None

    async def test_without_finalizers_it_is_gone_at_once(self, client: Client) -> None:
        created = await client.create(config_map("a", deletionTimestamp="2026-01-01T00:00:00Z"))
        assert "deletionTimestamp" not in created["metadata"]
        await client.delete(CONFIG_MAP, "a", namespace="default")
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAP, "a", namespace="default")


@pytest.mark.criterion("FK-03")
class TestStatus:
    async def test_it_is_apart_where_the_kind_defines_it(
        self, client: Client, widgets: None
    ) -> None:
        both: Manifest = {"spec": {"size": 1}, "status": {"ready": True}}
        created = await client.create(widget(**both))
        assert "status" not in created
        updated = await client.update({**created, **both, "spec": {"size": 2}})
        assert (updated["spec"], updated.get("status")) == ({"size": 2}, None)
        written = await client.update_status({**updated, **both, "spec": {"size": 9}})
        assert (written["spec"], written["status"]) == ({"size": 2}, {"ready": True})
        scaled = await client.create(deployment("d", replicas=1))
        status = {"replicas": 5, "observedGeneration": 1}
        answer = await client.update_status({**scaled, "status": status})
        assert (answer["spec"]["replicas"], answer["status"]["replicas"]) == (1, 5)
        read = await client.get(DEPLOYMENT, "d", namespace="default")
        kept = await client.update({**read, "status": {"replicas": 7}})
        assert kept["status"]["replicas"] == 5

    async def test_other_kinds_have_none(self, client: Client) -> None:
        created = await client.create(config_map("a"))
        with pytest.raises(NotFound):
            await client.update_status(created)


@pytest.mark.criterion("FK-04")
class TestTheRest:
    async def test_applies_own_their_fields(self, client: Client) -> None:
        await client.apply(config_map("a", {"x": "1", "y": "1"}), field_manager="one")
        await client.apply(config_map("a", {"z": "1"}), field_manager="two")
        with pytest.raises(Conflict) as conflict:
            await client.apply(config_map("a", {"x": "2"}), field_manager="two")
        assert [cause.field for cause in conflict.value.causes] == [".data.x"]
        # What its owner leaves out goes; what the other one owns stays.
        after = await client.apply(config_map("a", {"x": "1"}), field_manager="one")
        assert after["data"] == {"x": "1", "z": "1"}
        forced = await client.apply(config_map("a", {"x": "2"}), field_manager="two", force=True)
        assert forced["data"] == {"x": "2"}

    async def test_names_are_generated(self, client: Client) -> None:
        manifest = config_map("")
        manifest["metadata"] = {"generateName": "made-", "namespace": "default"}
        names = {(await client.create(manifest))["metadata"]["name"] for _ in range(5)}
        assert len(names) == 5
        assert all(name.startswith("made-") and len(name) == 10 for name in names)

    async def test_what_an_object_owns_goes_with_it(self, client: Client) -> None:
        owner = await client.create(config_map("owner"))
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": "owner",
            "uid": owner["metadata"]["uid"],
        }
        await client.create(config_map("owned", ownerReferences=[reference]))
        await client.create(config_map("free"))
        await client.delete(CONFIG_MAP, "owner", namespace="default")
        owned = "metadata.name=owned"
        await eventually(
            lambda: client.list(CONFIG_MAP, "default", fields=owned), lambda found: not found
        )
        assert await client.get(CONFIG_MAP, "free", namespace="default")

    async def test_watches_tell_what_is_selected(self, client: Client) -> None:
        listed = [page async for page in client.pages(CONFIG_MAP, "default", labels="on")]
        seen: list[tuple[str, str]] = []

        async def watch() -> None:
            version = listed[-1].resource_version
            events = client.watch(
                CONFIG_MAP, "default", labels="on", resource_version=version, timeout=120.0
            )
            async with contextlib.aclosing(events):
                async for kind, obj in events:
                    seen.append((kind, obj["metadata"]["name"]))
                    if kind == "DELETED" and obj["metadata"]["name"] == "b":
                        return

        watching = asyncio.create_task(watch())
        await client.create(config_map("a"))
        await client.create(config_map("b", labels={"on": "1"}))
        await client.patch(
            CONFIG_MAP, "a", {"metadata": {"labels": {"on": "1"}}}, namespace="default"
        )
        await client.patch(
            CONFIG_MAP, "a", {"metadata": {"labels": {"on": None}}}, namespace="default"
        )
        await client.delete(CONFIG_MAP, "b", namespace="default")
        await asyncio.wait_for(watching, 60.0)
        assert seen == [("ADDED", "b"), ("ADDED", "a"), ("DELETED", "a"), ("DELETED", "b")]


@pytest.mark.criterion("FK-05")
async def test_live_and_cached_lists_find_the_same(client: Client) -> None:
    for name, where, own in (
        ("a", "default", {"tier": "web", "colour": "red"}),
        ("b", "default", {"tier": "web"}),
        ("c", "default", {"tier": "db", "colour": "blue"}),
        ("a", "kube-public", {"tier": "web", "colour": "blue"}),
    ):
        manifest = config_map(name, labels={"suite": "fk", **own})
        manifest["metadata"]["namespace"] = where
        await client.create(manifest)
    cache = Cache(client)
    cache.declare(CONFIG_MAP)
    await cache.start()
    await cache.wait_synced(10.0)
    found = 0
    for namespace in (None, "default", "kube-public", "nowhere"):
        for labels in (
            "suite=fk",
            "suite=fk,tier==web",
            "suite,tier!=web",
            "suite,colour in (red, blue)",
            "suite,colour notin (red)",
            "suite,!colour",
            "suite=other",
        ):
            for fields in (None, "metadata.name=a", "metadata.namespace=default"):
                live = await client.list(CONFIG_MAP, namespace, labels=labels, fields=fields)
                cached = cache.list(CONFIG_MAP, namespace, labels=labels, fields=fields)
                assert keys(live) == keys(cached), (namespace, labels, fields)
                found += len(cached)
    await cache.stop()
    assert found > 50


def keys(objects: list[Manifest]) -> set[tuple[str, str]]:
    found = {(item["metadata"]["namespace"], item["metadata"]["name"]) for item in objects}
    assert len(found) == len(objects)
    return found
