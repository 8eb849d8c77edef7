"""A set of objects of one owner: what is desired is there, what else the owner has goes, and what is another's stays."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from ctrlruntime.api import BUILTIN, GroupVersionKind
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.cache.cache import Cache
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import TransportError
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually_holds
from ctrlruntime.envtest.proxy import Cut, Match
from ctrlruntime.resources import (
    ORDINAL,
    Action,
    Control,
    Desired,
    Owner,
    SetPolicy,
    SetResult,
    reconcile_set,
)

CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
SELECTOR = {"app": "web"}


@pytest.fixture
async def env() -> AsyncIterator[Environment]:
    async with Environment(proxy=True) as env:
        yield env


class Harness:
    """A control, its cache and an owner."""

    def __init__(self, env: Environment, cache: Cache, owner: Owner) -> None:
        self.env = env
        self.cache = cache
        self.owner = owner
        self.control = Control(cache, field_manager="manager")

    def current(self) -> Iterable[Entry]:
        return [each for each in self.cache.entries(CONFIG_MAP) if each.name != "owner"]

    async def reconcile(
        self, *desired: Desired, policy: SetPolicy | None = None, owner: Owner | None = None
    ) -> SetResult:
        return await reconcile_set(
            self.control, self.current(), desired, owner or self.owner, policy or SetPolicy()
        )

    def requests(self) -> list[str]:
        """Return the names of the objects of the requests so far, in their order."""
        log = self.env.proxy.log
        return [each.name for each in log.entries() if each.user == "manager" and each.name]

    async def names(self) -> set[str]:
        found: list[Manifest] = await self.env.client("admin").list(
            CONFIG_MAP, "default", labels=SELECTOR
        )
        return {each["metadata"]["name"] for each in found}


@pytest.fixture
async def harness(env: Environment) -> AsyncIterator[Harness]:
    async with staged(env) as harness:
        yield harness


@asynccontextmanager
async def staged(env: Environment) -> AsyncIterator[Harness]:
    owner = Owner.of(await env.client("admin").create(manifest("owner")))
    async with Client.connect(env.config("manager")) as client:
        cache = Cache(client)
        cache.declare(CONFIG_MAP, namespaces=["default"], labels=SELECTOR, track_manager="manager")
        await cache.start()
        await cache.wait_synced(60.0)
        yield Harness(env, cache, owner)
        await cache.stop()


def manifest(name: str, data: str = "1") -> Manifest:
    metadata = {"name": name, "namespace": "default", "labels": dict(SELECTOR)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": data}}


def wanted(name: str, data: str = "1", **more: int) -> Desired:
    return replace(Desired(mapping=CONFIG_MAP, manifest=manifest(name, data)), **more)  # type: ignore[arg-type]


async def test_what_is_desired_is_all_that_the_owner_has(harness: Harness) -> None:
    await harness.reconcile(wanted("a"), wanted("b"))
    result = await harness.reconcile(wanted("b", "2"), wanted("c"))
    assert {key.name: each.action for key, each in result.outcomes.items()} == {
        "b": Action.UPDATED,
        "c": Action.CREATED,
    }
    assert [each.name for each in result.deleted] == ["a"]
    assert result.wrote
    assert result.is_complete
    assert await harness.names() == {"owner", "b", "c"}


async def test_a_set_that_is_as_desired_costs_no_request(harness: Harness) -> None:
    await harness.reconcile(wanted("a"), wanted("b"))
    before = harness.requests()
    result = await harness.reconcile(wanted("a"), wanted("b"))
    assert harness.requests() == before
    assert not result.wrote


async def test_a_permit_costs_no_request(harness: Harness) -> None:
    await harness.reconcile(wanted("a"), wanted("b"))
    before = len(harness.requests())
    result = await harness.reconcile(wanted("a"))
    assert [each.name for each in result.deleted] == ["b"]
    assert harness.requests()[before:] == ["b"]


async def test_writes_go_up_by_ordinal_and_deletions_go_down(harness: Harness) -> None:
    await harness.reconcile(wanted("b", ordinal=1), wanted("a", ordinal=2))
    await harness.reconcile(
        wanted("x", instance=0), wanted("y", instance=1), wanted("z", instance=2)
    )
    assert harness.requests()[:2] == ["b", "a"]
    assert all(ORDINAL in each.annotations for each in harness.current() if each.name in "xyz")
    result = await harness.reconcile()
    assert [each.name for each in result.deleted] == ["z", "y", "x"]


async def test_an_object_of_another_owner_is_neither_written_nor_deleted(harness: Harness) -> None:
    admin = harness.env.client("admin")
    other = Owner.of(await admin.create(manifest("other-owner")))
    await harness.reconcile(
        wanted("theirs"), policy=SetPolicy(delete=lambda _entry: False), owner=other
    )
    await eventually_holds(lambda: any(each.name == "theirs" for each in harness.current()))
    result = await harness.reconcile(wanted("theirs", "2"))
    assert [item.name for item, _ in result.conflicts] == ["theirs"]
    assert "other-owner" in result.conflicts[0][1].conflict
    assert not result.is_complete
    assert not (await harness.reconcile()).deleted
    assert (await admin.get(CONFIG_MAP, "theirs", namespace="default"))["data"] == {"k": "1"}


async def test_one_that_fails_keeps_no_other_from_its_turn(harness: Harness) -> None:
    await harness.reconcile(wanted("old"))
    harness.env.proxy.add(Cut(), Match(user="manager", verb="write"), nth=1)
    result = await harness.reconcile(wanted("a"), wanted("b"))
    assert [key.name for key in result.errors] == ["a"]
    assert await harness.names() == {"owner", "b"}
    with pytest.raises(TransportError):
        result.raise_first()


async def test_nothing_is_deleted_while_a_desired_object_is_missing(harness: Harness) -> None:
    await harness.reconcile(wanted("old"))
    harness.env.proxy.add(Cut(), Match(user="manager", verb="write"), nth=1)
    policy = SetPolicy(only_when_complete=True)
    assert not (await harness.reconcile(wanted("new"), policy=policy)).deleted
    assert await harness.names() == {"owner", "old"}
    result = await harness.reconcile(wanted("new"), policy=policy)
    assert [each.name for each in result.deleted] == ["old"]


async def test_the_policy_keeps_what_it_does_not_delete(harness: Harness) -> None:
    await harness.reconcile(wanted("a"), wanted("b"))
    result = await harness.reconcile(policy=SetPolicy(delete=lambda entry: entry.name == "a"))
    assert [each.name for each in result.deleted] == ["a"]
    assert [each.name for each in result.kept] == ["b"]
    assert await harness.names() == {"owner", "b"}


async def test_rights_are_taken_away_before_new_ones_are_given(harness: Harness) -> None:
    await harness.reconcile(wanted("old"))
    await harness.reconcile(wanted("new"), policy=SetPolicy(deletes_first=True))
    assert harness.requests()[-2:] == ["old", "new"]


async def test_an_object_without_the_labels_of_the_selection_is_restored_at_once(
    harness: Harness,
) -> None:
    await harness.reconcile(wanted("a"))
    admin = harness.env.client("admin")
    patch = {"metadata": {"labels": {"app": None}}, "data": {"k": "by hand"}}
    await admin.patch(CONFIG_MAP, "a", patch, namespace="default")
    await eventually_holds(lambda: not any(each.name == "a" for each in harness.current()))
    result = await harness.reconcile(wanted("a"))
    assert result.wrote
    found = await admin.get(CONFIG_MAP, "a", namespace="default")
    assert found["data"] == {"k": "1"}
    assert found["metadata"]["labels"] == SELECTOR


async def test_an_object_that_is_being_deleted_is_not_deleted_again(harness: Harness) -> None:
    await harness.reconcile(wanted("a"))
    admin = harness.env.client("admin")
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    await admin.patch(CONFIG_MAP, "a", held, namespace="default")
    await admin.delete(CONFIG_MAP, "a", namespace="default")
    await eventually_holds(
        lambda: all(each.deletion_timestamp for each in harness.current() if each.name == "a")
    )
    before = harness.requests()
    result = await harness.reconcile()
    assert not result.deleted
    assert harness.requests() == before
