"""Watches: what is sent, in which order, and how a watch ends."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from ctrlruntime.envtest.server import ServerOptions

from .manifests import pod, secret, shape, widget
from .servers import TOKENS
from .wire import Api


@pytest.fixture
def options() -> ServerOptions:
    return ServerOptions(
        watch_history=64 * 1024, bookmark_interval=0.05, tokens=TOKENS, authorization="RBAC"
    )


async def version(api: Api) -> str:
    found: str = (await api.get(api.secrets))["metadata"]["resourceVersion"]
    return found


async def test_current_state_then_changes(api: Api) -> None:
    await api.create(api.secrets, secret("a"))
    async with api.watch(f"{api.secrets}?watch=true") as stream:
        assert await stream.take(1) == [("ADDED", "a")]
        await api.create(api.secrets, secret("b"))
        await api.merge(f"{api.secrets}/a", {"data": {"a": "Mg=="}})
        await api.call("DELETE", f"{api.secrets}/b")
        assert await stream.take(3) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]


async def test_changes_after_a_version(api: Api) -> None:
    await api.create(api.secrets, secret("a"))
    start = await version(api)
    await api.create(api.secrets, secret("b"))
    await api.call("DELETE", f"{api.secrets}/b")
    async with api.watch(f"{api.secrets}?watch=1&resourceVersion={start}") as stream:
        added, deleted = await stream.next(), await stream.next()
    assert (added["type"], deleted["type"]) == ("ADDED", "DELETED")
    rv = int(added["object"]["metadata"]["resourceVersion"])
    assert int(deleted["object"]["metadata"]["resourceVersion"]) > rv


@pytest.mark.embedded("a short history")
async def test_too_old_a_version_is_an_error_event(api: Api) -> None:
    start = await version(api)
    for index in range(100):
        await api.create(api.secrets, secret(f"a{index}"))
    async with api.watch(f"{api.secrets}?watch=1&resourceVersion={start}") as stream:
        (event,) = await stream.rest()
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert event["object"]["message"].startswith(f"too old resource version: {start} (")


async def test_objects_enter_and_leave_a_selection(api: Api) -> None:
    path = f"{api.secrets}?watch=1&labelSelector=on&resourceVersion={await version(api)}"
    async with api.watch(path) as stream:
        await api.create(api.secrets, secret("a"))
        await api.merge(f"{api.secrets}/a", {"metadata": {"labels": {"on": ""}}})
        await api.merge(f"{api.secrets}/a", {"data": {"a": "Mg=="}})
        await api.merge(f"{api.secrets}/a", {"metadata": {"labels": {"on": None}}})
        await api.merge(f"{api.secrets}/a", {"data": {"a": "Mw=="}})
        await api.create(api.secrets, secret("b", labels={"on": ""}))
        events = [await stream.next() for _ in range(4)]
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED"]
    left = events[2]["object"]
    assert left["metadata"]["labels"] == {"on": ""}
    assert int(left["metadata"]["resourceVersion"]) > int(
        events[1]["object"]["metadata"]["resourceVersion"]
    )


async def test_one_object(api: Api) -> None:
    path = f"{api.secrets}?watch=1&fieldSelector=metadata.name=b"
    async with api.watch(path) as stream:
        await api.create(api.secrets, secret("a"))
        await api.create(api.secrets, secret("b"))
        assert await stream.take(1) == [("ADDED", "b")]


async def test_namespaces_are_apart(api: Api) -> None:
    other = "/api/v1/namespaces/kube-public/secrets"
    async with api.watch(f"{api.secrets}?watch=1") as stream:
        await api.create(other, secret("elsewhere"))
        await api.create(api.secrets, secret("here"))
        assert await stream.take(1) == [("ADDED", "here")]
    await api.call("DELETE", f"{other}/elsewhere")


async def test_a_watch_ends_at_its_timeout(api: Api) -> None:
    async with api.watch(f"{api.secrets}?watch=1&timeoutSeconds=1") as stream:
        assert await stream.rest() == []


@pytest.mark.embedded("bookmarks at short intervals")
async def test_bookmarks_carry_the_newest_version(api: Api) -> None:
    start = await version(api)
    path = f"{api.secrets}?watch=1&allowWatchBookmarks=true&resourceVersion={start}"
    async with api.watch(path) as stream:
        made = await api.create(api.configmaps, {"metadata": {"name": "s"}})
        while True:
            event = await stream.next()
            assert event["type"] == "BOOKMARK"
            metadata = event["object"]["metadata"]
            if metadata["resourceVersion"] == made["metadata"]["resourceVersion"]:
                break
    assert event["object"]["kind"] == "Secret"


async def test_metadata_only_watch(api: Api) -> None:
    accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
    async with api.watch(f"{api.secrets}?watch=1", Accept=accept) as stream:
        await api.create(api.secrets, secret("a"))
        event = await stream.next()
    assert event["object"]["kind"] == "PartialObjectMetadata"
    assert "data" not in event["object"]


async def test_table_watch_sends_the_columns_once(api: Api) -> None:
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
    async with api.watch(f"{api.secrets}?watch=1", Accept=accept) as stream:
        await api.create(api.secrets, secret("a"))
        first = await stream.next()
        await api.create(api.secrets, secret("b"))
        second = await stream.next()
    assert first["object"]["kind"] == "Table"
    assert first["object"]["columnDefinitions"]
    assert not second["object"]["columnDefinitions"]
    assert second["object"]["rows"][0]["object"]["metadata"]["name"] == "b"


@pytest.mark.custom
async def test_all_watchers_see_the_same(api: Api, widgets: str) -> None:
    async with api.watch(f"{widgets}?watch=1") as one, api.watch(f"{widgets}?watch=1") as other:
        for index in range(5):
            await api.create(widgets, widget(f"w{index}"))
        seen = [await one.next() for _ in range(5)]
        assert [await other.next() for _ in range(5)] == seen


@pytest.mark.embedded("a short buffer")
@pytest.mark.parametrize("options", [ServerOptions(watch_buffer=5, tokens=TOKENS)])
async def test_a_slow_watcher_is_cut_off_and_blocks_no_other(api: Api) -> None:
    async with api.watch(f"{api.secrets}?watch=1") as slow:
        for index in range(40):
            await api.create(api.secrets, secret(f"a{index}", "eHh4" * 50_000))
        events = await slow.rest()
    assert len(events) < 40


@pytest.mark.embedded("stops it")
async def test_stopping_the_server_ends_its_watches(api: Api) -> None:
    assert api.server is not None
    async with api.watch(f"{api.secrets}?watch=1") as stream:
        ended = asyncio.create_task(stream.next())
        await api.server.stop()
        try:
            assert await ended is None
        except aiohttp.ClientError:
            return  # the connection was cut, which is an end as well


@pytest.mark.custom
@pytest.mark.parametrize("query", ["", "&resourceVersion=", "&resourceVersion=0"])
async def test_without_a_version_the_present_comes_first(api: Api, shaped: str, query: str) -> None:
    for name in ("b", "a"):
        await api.create(shaped, shape(name))
    async with api.watch(f"{shaped}?watch=1{query}") as stream:
        assert sorted(await stream.take(2)) == [("ADDED", "a"), ("ADDED", "b")]
        await api.call("DELETE", f"{shaped}/a")
        await api.merge(f"{shaped}/b", {"metadata": {"labels": {"x": "y"}}})
        assert await stream.take(2) == [("DELETED", "a"), ("MODIFIED", "b")]


@pytest.mark.custom
async def test_the_last_state_of_a_deleted_object(api: Api, shaped: str) -> None:
    made = await api.create(shaped, shape("s", {"count": 5}, finalizers=["example.com/hold"]))
    start = made["metadata"]["resourceVersion"]
    await api.call("DELETE", f"{shaped}/s")
    await api.merge(f"{shaped}/s", {"metadata": {"finalizers": None}})
    async with api.watch(f"{shaped}?watch=1&resourceVersion={start}") as stream:
        marked, gone = await stream.next(), await stream.next()
    assert (marked["type"], gone["type"]) == ("MODIFIED", "DELETED")
    assert marked["object"]["metadata"]["deletionTimestamp"]
    assert gone["object"]["metadata"]["finalizers"] == ["example.com/hold"]
    assert int(gone["object"]["metadata"]["resourceVersion"]) > int(
        marked["object"]["metadata"]["resourceVersion"]
    )
    assert gone["object"]["spec"]["count"] == 5


@pytest.mark.custom
async def test_a_write_of_nothing_is_no_event(api: Api, shaped: str) -> None:
    made = await api.create(shaped, shape("s", {"count": 5}))
    start = made["metadata"]["resourceVersion"]
    await api.merge(f"{shaped}/s", {"spec": {"count": 5}})
    await api.call("PUT", f"{shaped}/s", made)
    await api.merge(f"{shaped}/s?dryRun=All", {"spec": {"count": 10}})
    await api.create(shaped, shape("end"))
    async with api.watch(f"{shaped}?watch=1&resourceVersion={start}") as stream:
        assert await stream.take(1) == [("ADDED", "end")]


@pytest.mark.custom
async def test_watches_that_cannot_be(api: Api, shaped: str) -> None:
    for query, code in {
        "resourceVersion=abc": 500,
        "resourceVersion=-1": 500,
        "labelSelector=a%20in%20b": 400,
        "fieldSelector=spec.nothing=1": 400,
        "timeoutSeconds=x": 400,
    }.items():
        status, _, _ = await api.send("GET", f"{shaped}?watch=1&{query}")
        assert status == code, query
    code, _, message = await api.fails("GET", f"{shaped}?watch=1&resourceVersionMatch=NotOlderThan")
    assert (code, "resourceVersionMatch" in message) == (422, True)
    assert (await api.send("GET", f"{shaped.replace('shapes', 'nothings')}?watch=1"))[0] == 404


@pytest.mark.custom
async def test_one_object_by_its_path(api: Api, shaped: str) -> None:
    """The old form, `/watch/` before the resource."""
    path = shaped.replace("/v1/namespaces", "/v1/watch/namespaces")
    await api.create(shaped, shape("a"))
    status, _, _ = await api.send("GET", f"{path}?timeoutSeconds=1")
    assert status in {200, 404}
    async with api.watch(f"{shaped}?watch=1&fieldSelector=metadata.name%3Db") as stream:
        await api.create(shaped, shape("b"))
        assert await stream.take(1) == [("ADDED", "b")]


async def test_all_namespaces_at_once(api: Api) -> None:
    label = api.namespace
    path = f"/api/v1/secrets?watch=1&labelSelector=own%3D{label}"
    async with api.watch(path) as stream:
        await api.create(api.secrets, secret("here", labels={"own": label}))
        elsewhere = "/api/v1/namespaces/kube-public/secrets"
        await api.create(elsewhere, secret(api.named("there"), labels={"own": label}))
        assert await stream.take(2) == [("ADDED", "here"), ("ADDED", api.named("there"))]


async def test_field_selectors_of_watches(api: Api) -> None:
    pods = api.path("v1", "pods")
    await api.create(pods, pod("p"))
    async with api.watch(f"{pods}?watch=1&fieldSelector=spec.nodeName%3Dn1") as stream:
        binding = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
        await api.create(f"{pods}/p/binding", binding)
        event = await stream.next()
        assert (event["type"], event["object"]["spec"]["nodeName"]) == ("ADDED", "n1")


@pytest.mark.custom
async def test_a_bookmark_precedes_the_end(api: Api, shaped: str) -> None:
    """A server that sends few bookmarks sends one some two seconds before the timeout."""
    made = await api.create(shaped, shape("a"))
    start = made["metadata"]["resourceVersion"]
    path = f"{shaped}?watch=1&allowWatchBookmarks=true&timeoutSeconds=4&resourceVersion={start}"
    bookmarks: list[dict[str, Any]] = []
    # A machine that stands still in those two seconds lets the watch end without.
    for name in "bcd":
        async with api.watch(path) as stream:
            await api.create(shaped, shape(name))
            events = await stream.rest()
        bookmarks = [event["object"] for event in events if event["type"] == "BOOKMARK"]
        if bookmarks:
            break
    assert events[0]["type"] == "ADDED"
    assert events[-1]["type"] == "BOOKMARK"
    metadata = bookmarks[-1]["metadata"]
    assert int(metadata["resourceVersion"]) >= int(start)
    assert bookmarks[-1]["kind"] == "Shape"
    assert "name" not in metadata


@pytest.mark.custom
@pytest.mark.since("initial events")
async def test_streamed_lists_of_custom_kinds(api: Api, shaped: str) -> None:
    for name in ("a", "b"):
        await api.create(shaped, shape(name))
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    async with api.watch(f"{shaped}?watch=1&{query}") as stream:
        assert sorted(await stream.take(2)) == [("ADDED", "a"), ("ADDED", "b")]
        end = await stream.next()
        assert end["type"] == "BOOKMARK"
        assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        await api.create(shaped, shape("c"))
        assert await stream.take(1) == [("ADDED", "c")]
    for query in ("", "&resourceVersionMatch=Exact&allowWatchBookmarks=true"):
        path = f"{shaped}?watch=1&timeoutSeconds=1&sendInitialEvents=true{query}"
        code, _, message = await api.fails("GET", path)
        assert code == 422
        text = "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        assert text in message
    _, _, message = await api.fails("GET", f"{shaped}?sendInitialEvents=true")
    assert "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list" in message
