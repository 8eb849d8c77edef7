"""The whole way from a misbehaving HTTP server to the store."""

import asyncio
from collections.abc import AsyncGenerator, Callable

import orjson
import pytest
from aiohttp import web

from ctrlruntime.cache.cache import Cache, CacheOptions
from ctrlruntime.cache.informer import Informer, InformerOptions
from ctrlruntime.cache.reflector import ReflectorOptions
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from tests.cache.test_reflector import bookmark, event, obj, page, status
from tests.client.peer import Answer, Peer, fails, hangs_up, says, streams
from tests.client.support import CONFIG_MAP


class ListAndWatch:
    """Lists and watches are answered from scripts of their own."""

    def __init__(self, lists: list[Answer], watches: list[Answer]) -> None:
        self._lists = lists
        self._watches = watches
        self.asked: list[str] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        watch = "watch" in request.query
        what = "watch" if watch else "one" if request.query.get("limit") == "1" else "list"
        self.asked.append(f"{what} {request.query.get('resourceVersion')}")
        return await (self._watches if watch else self._lists).pop(0)(request)


def lines(*parts: bytes) -> bytes:
    return b"".join(part + b"\n" for part in parts)


@pytest.fixture
async def peer() -> AsyncGenerator[Peer, None]:
    async with Peer() as peer:
        yield peer


async def follow(peer: Peer, script: ListAndWatch, *, until: set[str]) -> Informer:
    """Run a cache until its store holds these names; backoff and patience are short."""
    peer.answers = [script]
    options = ReflectorOptions(
        inactivity=0.2, streaming=False, sleep=lambda _seconds: asyncio.sleep(0.01)
    )
    reached = asyncio.Event()
    async with Client.connect(Config(host=peer.url)) as client:
        cache = Cache(client, CacheOptions(informers=InformerOptions(reflector=options)))
        informer = cache.declare(CONFIG_MAP).informer

        def check(_event: object) -> None:
            if {entry.name for entry in informer.store} == until:
                reached.set()

        informer.add_handler(check)
        await cache.start()
        async with asyncio.timeout(60.0):
            await reached.wait()
        await cache.stop()
    return informer


@pytest.mark.criterion("RF-05")
@pytest.mark.parametrize(
    ("trouble", "then"),
    [
        pytest.param(
            lambda peer: hangs_up(lines(bookmark(12)) + b'{"type":"AD'),
            ["one 12", "watch 12"],
            id="cut off",
        ),
        pytest.param(lambda peer: streams(b"<html>busy</html>\n"), ["watch 10"], id="garbage"),
        pytest.param(
            lambda peer: says(b"busy", status=502), ["one 10", "watch 10"], id="bad gateway"
        ),
        pytest.param(lambda peer: fails(429, "TooManyRequests"), ["watch 10"], id="throttled"),
        pytest.param(lambda peer: streams(), ["watch 10"], id="ended at once"),
    ],
)
async def test_a_troubled_watch_is_taken_up_again_without_a_list(
    peer: Peer, trouble: Callable[[Peer], Answer], then: list[str]
) -> None:
    """Where another server may answer now, it confirms the version first, by one object at most (R-F8)."""
    good = streams(lines(event("ADDED", obj("b", 20))), then=peer.released.wait)
    listed, confirmed = says(page(10, obj("a", 3))), says(page(12))
    script = ListAndWatch([listed, confirmed, confirmed], [trouble(peer), trouble(peer), good])
    await follow(peer, script, until={"a", "b"})
    assert script.asked == ["list None", "watch 10", *then * 2]


@pytest.mark.criterion("RF-05")
async def test_a_silent_watch_is_taken_up_again_once_the_server_confirms_its_version(
    peer: Peer,
) -> None:
    good = streams(lines(event("ADDED", obj("b", 20))), then=peer.released.wait)
    silent = streams(then=peer.released.wait)
    listed, confirmed = says(page(10, obj("a", 3))), says(page(10))
    script = ListAndWatch([listed, confirmed, confirmed], [silent, silent, good])
    await follow(peer, script, until={"a", "b"})
    assert script.asked == ["list None", *["watch 10", "one 10"] * 2, "watch 10"]


@pytest.mark.criterion("RF-03")
async def test_410_as_an_answer_and_as_an_event(peer: Peer) -> None:
    good = streams(lines(event("ADDED", obj("c", 40))), then=peer.released.wait)
    script = ListAndWatch(
        [says(page(10, obj("a", 3))), says(page(20)), says(page(30, obj("b", 25)))],
        [fails(410, "Expired"), streams(lines(status(410, "Expired"))), good],
    )
    await follow(peer, script, until={"b", "c"})
    assert script.asked == [
        "list None",
        "watch 10",
        "list None",
        "watch 20",
        "list None",
        "watch 30",
    ]


async def test_a_list_that_breaks_off_leaves_nothing_behind(peer: Peer) -> None:
    whole = page(10, obj("a", 3), obj("b", 4))
    first = orjson.dumps({"metadata": {"continue": "t"}, "items": [obj("x", 1)]})
    script = ListAndWatch(
        [hangs_up(whole[:50]), says(first), hangs_up(), says(b"not json"), says(whole)],
        [streams(then=peer.released.wait)],
    )
    informer = await follow(peer, script, until={"a", "b"})
    assert len(script.asked) >= 5
    assert "x" not in {entry.name for entry in informer.store}


@pytest.mark.criterion("RF-22")
async def test_stopping_ends_every_task(peer: Peer) -> None:
    before = asyncio.all_tasks()
    script = ListAndWatch([says(page(1, obj("a", 1)))], [streams(then=peer.released.wait)] * 9)
    await follow(peer, script, until={"a"})
    ours = {task for task in asyncio.all_tasks() - before if "ctrlruntime" in repr(task.get_coro())}
    assert not ours
