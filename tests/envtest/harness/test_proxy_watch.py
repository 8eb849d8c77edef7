"""Faults of watch streams: dropped, delayed, cut, silent and expired."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import aiohttp
import orjson
import pytest

from ctrlruntime.envtest.proxy import (
    CutWatch,
    DelayEvents,
    DropEvents,
    GoneWatch,
    Match,
    Proxy,
    SilenceWatch,
)
from tests.support.waiting import eventually

from .upstream import Upstream

PODS = "/api/v1/namespaces/ns/pods?watch=true"


class Watch:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    @property
    def received(self) -> int:
        return self._response.content.total_bytes

    async def next(self) -> str:
        """Type and name of the next event; "end" at the end of the stream."""
        line = await self._response.content.readline()
        if not line:
            return "end"
        event = orjson.loads(line)
        if event["type"] == "ERROR":
            return f"ERROR {event['object']['code']}"
        return f"{event['type']} {event['object']['metadata']['name']}"

    async def quiet(self) -> bool:
        """Whether nothing has come through although the server has sent."""
        try:
            async with asyncio.timeout(0.1):
                await self._response.content.readline()
        except TimeoutError:
            return True
        return False


@pytest.fixture
async def watch(
    proxy: Proxy, upstream: Upstream, session: aiohttp.ClientSession
) -> AsyncIterator[Watch]:
    async with session.get(f"{proxy.url}{PODS}") as response:
        await upstream.watching.wait()
        yield Watch(response)


async def test_chosen_events_are_dropped(proxy: Proxy, upstream: Upstream, watch: Watch) -> None:
    rule = proxy.add(DropEvents(types=("MODIFIED",)), Match(name="a"), nth=2)
    for type_, name in [("MODIFIED", "a"), ("ADDED", "a"), ("MODIFIED", "b"), ("MODIFIED", "a"),
                        ("MODIFIED", "a")]:  # fmt: skip
        upstream.send(type_, name)
    seen = [await watch.next() for _ in range(4)]
    assert seen == ["MODIFIED a", "ADDED a", "MODIFIED b", "MODIFIED a"]
    assert (rule.matched, rule.fired) == (3, 1)


async def test_bookmarks_pass_a_drop_that_does_not_name_them(
    proxy: Proxy, upstream: Upstream, watch: Watch
) -> None:
    proxy.add(DropEvents(), times=None)
    upstream.send("ADDED", "a")
    upstream.send("BOOKMARK", "")
    assert await watch.next() == "BOOKMARK "


async def test_delayed_events_keep_their_order(
    proxy: Proxy, upstream: Upstream, watch: Watch
) -> None:
    rule = proxy.add(DelayEvents(0.2), Match(name="a"))
    start = time.monotonic()
    upstream.send("ADDED", "a")
    upstream.send("ADDED", "b")
    await proxy.wait_fired(rule)
    upstream.send("ADDED", "c")
    assert [await watch.next() for _ in range(3)] == ["ADDED a", "ADDED b", "ADDED c"]
    assert time.monotonic() - start >= 0.2


async def test_an_open_stream_is_cut_at_once(
    proxy: Proxy, upstream: Upstream, watch: Watch
) -> None:
    upstream.send("ADDED", "a")
    assert await watch.next() == "ADDED a"
    rule = proxy.add(CutWatch(), Match(resource="pods"))
    with pytest.raises((aiohttp.ClientPayloadError, aiohttp.ClientOSError)):
        await watch.next()
    assert rule.fired == 1


async def test_a_stream_is_cut_cleanly_in_place_of_an_event(
    proxy: Proxy, upstream: Upstream, watch: Watch
) -> None:
    proxy.add(CutWatch(at_once=False, clean=True), nth=2)
    upstream.send("ADDED", "a")
    upstream.send("ADDED", "b")
    assert [await watch.next() for _ in range(2)] == ["ADDED a", "end"]


async def test_a_silent_stream_stays_open_and_reports_nothing(
    proxy: Proxy, upstream: Upstream, watch: Watch, session: aiohttp.ClientSession
) -> None:
    upstream.send("ADDED", "a")
    assert await watch.next() == "ADDED a"
    proxy.add(SilenceWatch())
    upstream.send("ADDED", "b")
    upstream.send_raw(None)  # not even the end gets through
    assert await watch.quiet()

    upstream.watching.clear()
    async with session.get(f"{proxy.url}{PODS}") as response:
        await upstream.watching.wait()
        upstream.send("ADDED", "c")
        assert await Watch(response).next() == "ADDED c", "the next stream is well again"


async def test_new_streams_can_be_silenced(
    proxy: Proxy, upstream: Upstream, session: aiohttp.ClientSession
) -> None:
    proxy.add(SilenceWatch())
    async with session.get(f"{proxy.url}{PODS}") as response:
        await upstream.watching.wait()
        upstream.send("ADDED", "a")
        assert await Watch(response).quiet()


async def test_an_expired_stream_reports_it_and_ends(
    proxy: Proxy, upstream: Upstream, watch: Watch
) -> None:
    proxy.add(GoneWatch())
    upstream.send("ADDED", "a")
    assert [await watch.next(), await watch.next()] == ["ERROR 410", "end"]


async def test_a_rule_added_inside_a_line_takes_hold_at_the_next(
    proxy: Proxy, upstream: Upstream, watch: Watch
) -> None:
    upstream.send_raw(b'{"type":"ADDED","object":{"metadata":')
    await eventually(lambda: watch.received > 0)
    proxy.add(DropEvents(), times=None)
    upstream.send_raw(b'{"name":"a"}}}\n')
    upstream.send("ADDED", "b")
    upstream.send("BOOKMARK", "z")
    assert [await watch.next(), await watch.next()] == ["ADDED a", "BOOKMARK z"]


async def test_streams_of_other_kinds_are_left_alone(
    proxy: Proxy, upstream: Upstream, watch: Watch
) -> None:
    proxy.add(DropEvents(), Match(resource="services"), times=None)
    proxy.add(CutWatch(), Match(user="bob"), times=None)
    upstream.send("ADDED", "a")
    assert await watch.next() == "ADDED a"
