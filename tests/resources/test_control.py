"""A control over HTTP: whatever is lost on the way, objects end as desired, once each, and then it is silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from ctrlruntime.api import BUILTIN, GroupVersionKind
from ctrlruntime.api.kinds import Manifest
from ctrlruntime.cache.cache import Cache
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import Conflict, TransportError, WriteOutcomeUnknown
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually_holds
from ctrlruntime.envtest.proxy import Cut, Delay, LoseReply, Match
from ctrlruntime.gate import Cause
from ctrlruntime.resources import Action, Control, Desired, Owner, Reason
from tests.cache.lagging_watch import LaggingWatch
from tests.support.waiting import eventually

CONFIG_MAP = BUILTIN[GroupVersionKind("", "v1", "ConfigMap")]
SERVICE = BUILTIN[GroupVersionKind("", "v1", "Service")]
WRITES = Match(user="manager", verb="write")


@pytest.fixture
async def env() -> AsyncIterator[Environment]:
    async with Environment(proxy=True) as env:
        yield env


@asynccontextmanager
async def life(env: Environment) -> AsyncIterator[Control]:
    """One life of a program: nothing is remembered from the one before."""
    async with Client.connect(env.config("manager")) as client:
        cache = Cache(client)
        for kind in (CONFIG_MAP, SERVICE):
            cache.declare(kind, namespaces=["default"], track_manager="manager")
        await cache.start()
        await cache.wait_synced(10.0)
        yield Control(cache, field_manager="manager")
        await cache.stop()


async def owner_of(env: Environment) -> Owner:
    manifest: Manifest = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "owner", "namespace": "default"},
    }
    owner: Manifest = await env.client("admin").create(manifest)
    return Owner.of(owner)


def desired(name: str, **data: str) -> Desired:
    metadata = {"name": name, "namespace": "default"}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    return Desired(mapping=CONFIG_MAP, manifest=manifest)


async def there(env: Environment) -> dict[str, Any]:
    """Data and uid by name."""
    found: list[Manifest] = await env.client("admin").list(CONFIG_MAP, "default")
    return {
        item["metadata"]["name"]: (item["data"], item["metadata"]["uid"])
        for item in found
        if item["metadata"]["name"] != "owner" and "data" in item
    }


@pytest.mark.criterion("sigkill-at-each-write")
@pytest.mark.parametrize("fault", [Cut(), LoseReply()], ids=["before", "after"])
@pytest.mark.parametrize("nth", [1, 2, 3, 4])
async def test_a_life_that_ends_at_a_write_leaves_no_trace(
    env: Environment, fault: Cut | LoseReply, nth: int
) -> None:
    owner = await owner_of(env)
    wanted = [desired("a", k="1"), desired("b", k="1"), desired("a", k="2"), desired("b", k="2")]
    env.proxy.add(fault, WRITES, nth=nth)
    made: dict[str, str] = {}
    lives = 0
    while lives < 2:
        lives += 1
        async with life(env) as control:
            try:
                for item in wanted if lives == 1 else wanted[2:]:
                    outcome = await control.ensure(item, owner)
                    assert not outcome.conflict
                    made |= {name: uid for name, (_, uid) in (await there(env)).items()}
            except (WriteOutcomeUnknown, TransportError):
                continue
    ended = await there(env)
    assert {name: data for name, (data, _) in ended.items()} == {"a": {"k": "2"}, "b": {"k": "2"}}
    assert {name: ended[name][1] for name in made} == made, "nothing was made twice"
    before = env.proxy.log.mark()
    async with life(env) as control:
        for item in wanted[2:]:
            await control.ensure(item, owner)
    assert env.proxy.log.since(before).select(user="manager").writes == 0


@pytest.mark.criterion("LV-8")
@pytest.mark.parametrize("first", [{}, {"k": "0"}], ids=["create", "update"])
async def test_ensure_after_a_lost_answer_reads_the_object_once_and_does_not_write_again(
    env: Environment, first: dict[str, str]
) -> None:
    owner = await owner_of(env)
    async with life(env) as control:
        if first:
            await control.ensure(desired("a", **first), owner)
        informer = control._cache.informer(CONFIG_MAP)
        LaggingWatch(informer)
        env.proxy.add(LoseReply(), WRITES, nth=1)
        with pytest.raises(WriteOutcomeUnknown):
            await control.ensure(desired("a", k="1"), owner)
        mark = env.proxy.log.mark()
        outcome = await control.ensure(desired("a", k="1"), owner)
        assert outcome.action is Action.UNCHANGED
        seen = env.proxy.log.since(mark).select(user="manager", resource="configmaps")
        assert (seen.writes, seen.select(verbs={"list", "get"}).total) == (0, 1)
        await control.ensure(desired("a", k="1"), owner)
        again = env.proxy.log.since(mark).select(user="manager", resource="configmaps")
        assert (again.writes, again.select(verbs={"list", "get"}).total) == (0, 1)


@pytest.mark.criterion("LV-8")
@pytest.mark.parametrize("change", ["another write", "deletion"])
async def test_over_the_version_that_was_judged_nothing_newer_is_written(
    env: Environment, change: str
) -> None:
    owner, admin = await owner_of(env), env.client("admin")
    async with life(env) as control:
        made = await control.ensure(desired("a", k="1"), owner)
        assert made.entry is not None
        judged = made.entry.resource_version
        assert (
            await control.ensure(desired("a", k="2"), owner, over=judged)
        ).action is Action.UPDATED
        if change == "deletion":
            await admin.delete(CONFIG_MAP, "a", namespace="default")
        wanted, before = desired("a", k="3"), await there(env)
        mark = env.proxy.log.mark()
        with pytest.raises(Conflict):
            await control.ensure(wanted, owner, over=judged)
        assert await there(env) == before
        assert env.proxy.log.since(mark).select(user="manager", verbs={"get", "list"}).total == 0
        assert (await control.ensure(wanted, owner)).action is not Action.UNCHANGED


@pytest.mark.criterion("H-C4")
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside an informer of metadata"])
async def test_an_object_that_lost_the_label_it_is_selected_by_is_reclaimed_whole(
    env: Environment, beside: bool
) -> None:
    """Another controller that sees every object, and of each its metadata alone, changes nothing of that."""
    owner, admin = await owner_of(env), env.client("admin")
    made = desired("a", k="1")
    made.manifest["metadata"]["labels"] = {"made-by": "us"}
    async with Client.connect(env.config("manager")) as client:
        cache = Cache(client)
        if beside:
            cache.declare(CONFIG_MAP, metadata_only=True, track_manager="another")
        cache.declare(CONFIG_MAP, labels={"made-by": "us"}, track_manager="manager")
        await cache.start()
        await cache.wait_synced(60.0)
        control = Control(cache, field_manager="manager")
        await control.ensure(made, owner)
        before = await there(env)
        await admin.patch(
            CONFIG_MAP, "a", {"metadata": {"labels": {"made-by": None}}}, namespace="default"
        )
        await eventually_holds(lambda: control.look(made) is None, timeout=60.0)
        outcome = await control.ensure(made, owner)
        assert (outcome.action, outcome.reason) == (Action.UPDATED, Reason.TRACKING)
        entry = control.look(made)
        assert entry is not None
        assert entry.field("data") == {"k": "1"}, "all of it, and not its metadata alone"
        assert (await control.ensure(made, owner)).reason in (None, Reason.DRIFT)
        assert (await control.ensure(made, owner)).action is Action.UNCHANGED
        assert await there(env) == before
        await cache.stop()


@pytest.mark.criterion("LV-8")
async def test_delete_has_the_uid_as_precondition_so_a_successor_stays(env: Environment) -> None:
    owner, admin = await owner_of(env), env.client("admin")
    async with life(env) as control:
        await control.ensure(desired("a", k="1"), owner)
        entry = control.look(desired("a"))
        assert entry is not None
        await admin.delete(CONFIG_MAP, "a", namespace="default")
        successor = desired("a", k="theirs").manifest
        await admin.create(successor)
        assert not await control.remove(CONFIG_MAP, entry, owner, Cause.SPEC_CHANGED)
        assert (await there(env))["a"][0] == {"k": "theirs"}
        stranger = Owner(gvk=owner.gvk, namespace="default", name="stranger", uid="another")
        assert not await control.remove(CONFIG_MAP, entry, stranger, Cause.SPEC_CHANGED)


@pytest.mark.criterion("H-A9")
async def test_an_object_that_is_being_deleted_is_not_adopted(env: Environment) -> None:
    """The garbage collector deletes what a former owner left; the watch has not shown it yet."""
    owner, admin = await owner_of(env), env.client("admin")
    first = desired("a", k="1")
    first.manifest["metadata"]["finalizers"] = ["example.com/held"]

    async def is_deleted() -> bool:
        found = await admin.get(CONFIG_MAP, "a", namespace="default")
        return "deletionTimestamp" in found["metadata"]

    async with life(env) as control:
        informer = control._cache.informer(CONFIG_MAP)
        LaggingWatch(informer)
        await control.ensure(first, replace(owner, uid="of-a-former-owner"))
        await eventually(is_deleted)
        seen = control.look(first)
        assert seen is not None
        assert seen.deletion_timestamp is None
        outcome = await control.ensure(desired("a", k="1"), owner)
        assert outcome.action is Action.TERMINATING
    found = await admin.get(CONFIG_MAP, "a", namespace="default")
    assert owner.uid not in {each["uid"] for each in found["metadata"]["ownerReferences"]}
    await admin.patch(CONFIG_MAP, "a", {"metadata": {"finalizers": None}}, namespace="default")


@pytest.mark.criterion("drift")
@pytest.mark.parametrize(
    "change",
    [
        {"data": {"k": "changed"}},
        {"data": {"k": None}},
        {"metadata": {"annotations": None}},
        {"data": {"k": "1", "theirs": "stays"}},
    ],
    ids=["value", "removed", "annotations", "foreign"],
)
async def test_what_others_change_of_ours_is_put_back(
    env: Environment, change: dict[str, Any]
) -> None:
    owner, admin = await owner_of(env), env.client("admin")
    async with life(env) as control:
        await control.ensure(desired("a", k="1", m="1"), owner)
        entry = control.look(desired("a"))
        assert entry is not None
        await admin.patch(CONFIG_MAP, "a", change, namespace="default")
        mark = env.proxy.log.mark()
        await eventually(lambda: control.look(desired("a")) is not entry)
        await control.ensure(desired("a", k="1", m="1"), owner)
        await control.ensure(desired("a", k="1", m="1"), owner)
        ours = "theirs" not in (change.get("data") or {})
        assert env.proxy.log.since(mark).select(user="manager").writes == int(ours)
    data = (await there(env))["a"][0]
    assert data == {"k": "1", "m": "1"} | ({} if ours else {"theirs": "stays"})


@pytest.mark.criterion("drift")
@pytest.mark.parametrize("ours", [True, False], ids=["ours", "theirs"])
async def test_what_others_change_before_we_have_our_answer_is_put_back(
    env: Environment, ours: bool
) -> None:
    """The watch tells of their change first: no event will ever say that ours was changed."""
    owner, admin = await owner_of(env), env.client("admin")
    env.proxy.add(Delay(seconds=1.0, when="after"), WRITES, nth=1)
    async with life(env) as control:
        writing = asyncio.ensure_future(control.ensure(desired("a", k="1"), owner))
        await eventually(lambda: there(env), lambda found: "a" in found)
        change = {"data": {"k": "changed"}} if ours else {"data": {"theirs": "stays"}}
        await admin.patch(CONFIG_MAP, "a", change, namespace="default")
        outcome = await writing
        assert outcome.action is (Action.UPDATED if ours else Action.CREATED)
        assert not outcome.superseded_by_watch
    data = (await there(env))["a"][0]
    assert data == ({"k": "1"} if ours else {"k": "1", "theirs": "stays"})


@pytest.mark.criterion("no-reads")
async def test_what_is_as_desired_costs_no_request(env: Environment) -> None:
    owner = await owner_of(env)
    async with life(env) as control:
        mark = env.proxy.log.mark()
        for _ in range(3):
            await control.ensure(desired("a", k="1"), owner)
        made = env.proxy.log.since(mark).select(user="manager")
        assert (made.writes, made.reads) == (1, 0)


def service(name: str) -> Desired:
    metadata = {"name": name, "namespace": "default"}
    spec = {"ports": [{"port": 80}]}
    manifest = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    return Desired(mapping=SERVICE, manifest=manifest)


@pytest.mark.criterion("PF-1")
@pytest.mark.parametrize("once", [False, True], ids=["kept", "create-only"])
@pytest.mark.parametrize(
    "wanted", [desired("a", k="1"), service("a")], ids=["ConfigMap", "Service"]
)
async def test_every_kind_is_created_by_one_apply_that_owns_its_fields(
    env: Environment, wanted: Desired, once: bool
) -> None:
    owner = await owner_of(env)
    async with life(env) as control:
        mark = env.proxy.log.mark()
        await control.ensure(replace(wanted, once=once), owner)
        made = env.proxy.log.since(mark).select(user="manager")
    assert (made.writes, made.verb("post"), made.verb("create")) == (1, 0, 0)
    found = await env.client("admin").get(wanted.mapping, "a", namespace="default")
    owned = [(e["manager"], e["operation"]) for e in found["metadata"]["managedFields"]]
    assert owned == [("manager", "Apply")]
