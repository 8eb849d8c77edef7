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


class Stage:
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
async def stage(env: Environment) -> AsyncIterator[Stage]:
    async with staged(env) as stage:
        yield stage


@asynccontextmanager
async def staged(env: Environment) -> AsyncIterator[Stage]:
    owner = Owner.of(await env.client("admin").create(manifest("owner")))
    async with Client.connect(env.config("manager")) as client:
        cache = Cache(client)
        cache.declare(CONFIG_MAP, namespaces=["default"], labels=SELECTOR, track_manager="manager")
        await cache.start()
        await cache.wait_synced(60.0)
        yield Stage(env, cache, owner)
        await cache.stop()


def manifest(name: str, data: str = "1") -> Manifest:
    metadata = {"name": name, "namespace": "default", "labels": dict(SELECTOR)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"k": data}}


def wanted(name: str, data: str = "1", **more: int) -> Desired:
    return replace(Desired(mapping=CONFIG_MAP, manifest=manifest(name, data)), **more)  # type: ignore[arg-type]


async def test_what_is_desired_is_all_that_the_owner_has(stage: Stage) -> None:
    await stage.reconcile(wanted("a"), wanted("b"))
    result = await stage.reconcile(wanted("b", "2"), wanted("c"))
    assert {key.name: each.action for key, each in result.outcomes.items()} == {
        "b": Action.UPDATED,
        "c": Action.CREATED,
    }
    assert [each.name for each in result.deleted] == ["a"]
    assert result.wrote
    assert result.is_complete
    assert await stage.names() == {"owner", "b", "c"}


async def test_a_set_that_is_as_desired_costs_no_request(stage: Stage) -> None:
    await stage.reconcile(wanted("a"), wanted("b"))
    before = stage.requests()
    result = await stage.reconcile(wanted("a"), wanted("b"))
    assert stage.requests() == before
    assert not result.wrote


async def test_a_permit_costs_no_request(stage: Stage) -> None:
    await stage.reconcile(wanted("a"), wanted("b"))
    before = len(stage.requests())
    result = await stage.reconcile(wanted("a"))
    assert [each.name for each in result.deleted] == ["b"]
    assert stage.requests()[before:] == ["b"]


async def test_writes_go_up_by_ordinal_and_deletions_go_down(stage: Stage) -> None:
    await stage.reconcile(wanted("b", ordinal=1), wanted("a", ordinal=2))
    await stage.reconcile(wanted("x", instance=0), wanted("y", instance=1), wanted("z", instance=2))
    assert stage.requests()[:2] == ["b", "a"]
    assert all(ORDINAL in each.annotations for each in stage.current() if each.name in "xyz")
    result = await stage.reconcile()
    assert [each.name for each in result.deleted] == ["z", "y", "x"]


async def test_an_object_of_another_owner_is_neither_written_nor_deleted(stage: Stage) -> None:
    admin = stage.env.client("admin")
    other = Owner.of(await admin.create(manifest("other-owner")))
    await stage.reconcile(
        wanted("theirs"), policy=SetPolicy(delete=lambda _entry: False), owner=other
    )
    await eventually_holds(lambda: any(each.name == "theirs" for each in stage.current()))
    result = await stage.reconcile(wanted("theirs", "2"))
    assert [item.name for item, _ in result.conflicts] == ["theirs"]
    assert "other-owner" in result.conflicts[0][1].conflict
    assert not result.is_complete
    assert not (await stage.reconcile()).deleted
    assert (await admin.get(CONFIG_MAP, "theirs", namespace="default"))["data"] == {"k": "1"}


async def test_one_that_fails_keeps_no_other_from_its_turn(stage: Stage) -> None:
    await stage.reconcile(wanted("old"))
    stage.env.proxy.add(Cut(), Match(user="manager", verb="write"), nth=1)
    result = await stage.reconcile(wanted("a"), wanted("b"))
    assert [key.name for key in result.errors] == ["a"]
    assert await stage.names() == {"owner", "b"}
    with pytest.raises(TransportError):
        result.raise_first()


async def test_nothing_is_deleted_while_a_desired_object_is_missing(stage: Stage) -> None:
    await stage.reconcile(wanted("old"))
    stage.env.proxy.add(Cut(), Match(user="manager", verb="write"), nth=1)
    policy = SetPolicy(only_when_complete=True)
    assert not (await stage.reconcile(wanted("new"), policy=policy)).deleted
    assert await stage.names() == {"owner", "old"}
    result = await stage.reconcile(wanted("new"), policy=policy)
    assert [each.name for each in result.deleted] == ["old"]


async def test_the_policy_keeps_what_it_does_not_delete(stage: Stage) -> None:
    await stage.reconcile(wanted("a"), wanted("b"))
    result = await stage.reconcile(policy=SetPolicy(delete=lambda entry: entry.name == "a"))
    assert [each.name for each in result.deleted] == ["a"]
    assert [each.name for each in result.kept] == ["b"]
    assert await stage.names() == {"owner", "b"}


async def test_rights_are_taken_away_before_new_ones_are_given(stage: Stage) -> None:
    await stage.reconcile(wanted("old"))
    await stage.reconcile(wanted("new"), policy=SetPolicy(deletes_first=True))
    assert stage.requests()[-2:] == ["old", "new"]


async def test_an_object_without_the_labels_of_the_selection_is_restored_at_once(
    stage: Stage,
) -> None:
    await stage.reconcile(wanted("a"))
    admin = stage.env.client("admin")
    patch = {"metadata": {"labels": {"app": None}}, "data": {"k": "by hand"}}
    await admin.patch(CONFIG_MAP, "a", patch, namespace="default")
    await eventually_holds(lambda: not any(each.name == "a" for each in stage.current()))
    result = await stage.reconcile(wanted("a"))
    assert result.wrote
    found = await admin.get(CONFIG_MAP, "a", namespace="default")
    assert found["data"] == {"k": "1"}
    assert found["metadata"]["labels"] == SELECTOR


async def test_an_object_that_is_being_deleted_is_not_deleted_again(stage: Stage) -> None:
    await stage.reconcile(wanted("a"))
    admin = stage.env.client("admin")
    held = {"metadata": {"finalizers": ["example.com/held"]}}
    await admin.patch(CONFIG_MAP, "a", held, namespace="default")
    await admin.delete(CONFIG_MAP, "a", namespace="default")
    await eventually_holds(
        lambda: all(each.deletion_timestamp for each in stage.current() if each.name == "a")
    )
    before = stage.requests()
    result = await stage.reconcile()
    assert not result.deleted
    assert stage.requests() == before
