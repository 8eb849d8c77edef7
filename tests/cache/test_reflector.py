"""The reflector against a scripted server, on a virtual clock."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

import orjson
import pytest
from structlog.testing import capture_logs

from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.backoff import Backoff, BackoffOptions
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.events import CreateEvent, DeleteEvent, Event, UpdateEvent
from ctrlruntime.cache.informer import (
    Informer,
    InformerDeps,
    InformerOptions,
    Selection,
    Transform,
)
from ctrlruntime.cache.listwatch import WatchRequest
from ctrlruntime.cache.observe import InformerObserver, NoInformerObserver
from ctrlruntime.cache.reflector import ReflectorOptions
from ctrlruntime.client.dial import _any_socket, _keepalive_socket
from ctrlruntime.client.errors import (
    APIError,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    ServiceUnavailable,
    Timeout,
    TooManyRequests,
    TransportError,
)
from ctrlruntime.queue import PriorityQueue, Request
from tests.cache.conftest import manifest

pytestmark = pytest.mark.looptime

MAPPING = RESTMapping(GroupVersionKind("", "v1", "ConfigMap"), "configmaps", True)


def page(version: int, *objects: dict[str, Any], more: str = "") -> bytes:
    metadata = {"resourceVersion": str(version)} | ({"continue": more} if more else {})
    return orjson.dumps({"kind": "ConfigMapList", "metadata": metadata, "items": objects})


def obj(name: str, version: int, uid: str = "") -> dict[str, Any]:
    return manifest(name, uid=uid or f"uid-{name}", resourceVersion=str(version))


def event(type_: str, body: dict[str, Any]) -> bytes:
    return orjson.dumps({"type": type_, "object": body})


def bookmark(version: int, *, initial_end: bool = False) -> bytes:
    metadata: dict[str, Any] = {"resourceVersion": str(version)}
    if initial_end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return event("BOOKMARK", {"kind": "ConfigMap", "metadata": metadata})


def status(code: int, reason: str) -> bytes:
    return event("ERROR", {"kind": "Status", "code": code, "reason": reason, "message": reason})


Step = bytes | Exception | float
"""A page or line, a failure, or seconds to wait."""


@dataclass
class ScriptedServer:
    """Answers the n-th list and the n-th watch as scripted; the last watch stays open."""

    lists: list[list[Step]] = field(default_factory=list)
    watches: list[list[Step]] = field(default_factory=list)
    requests: list[Any] = field(default_factory=list)
    """("list", not_older_than, limit) and WatchRequest, with the time, in order."""

    news: asyncio.Event = field(default_factory=asyncio.Event)

    def _record(self, request: object) -> None:
        self.news.set()
        self.requests.append((asyncio.get_running_loop().time(), request))

    @property
    def log(self) -> list[str]:
        return [
            f"watch {r.resource_version}" if isinstance(r, WatchRequest) else "list"
            for _, r in self.requests
        ]

    async def pages(
        self, *, limit: int, not_older_than: str | None = None, name: str | None = None
    ) -> AsyncGenerator[bytes, None]:
        self._record(("list", not_older_than, limit))
        assert self.lists, "a list that the script does not foresee"
        async for item in self._play(self.lists.pop(0)):
            yield item

    async def watch(self, request: WatchRequest) -> AsyncGenerator[bytes, None]:
        self._record(request)
        steps = self.watches.pop(0) if self.watches else None
        async for item in self._play(steps or []):
            yield item
        if steps is None:
            await asyncio.get_running_loop().create_future()

    async def _play(self, steps: list[Step]) -> AsyncGenerator[bytes, None]:
        for step in steps:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, float):
                await asyncio.sleep(step)
            else:
                yield step


class WatchedOptions(TypedDict, total=False):
    resync: float | None
    on_error: Callable[[GroupVersionKind, Exception], None] | None
    transform: Transform | None
    observer: InformerObserver | None
    streaming: bool
    random: Callable[[], float]


class Watched:
    """An informer that follows a scripted server, and what its handler was told."""

    def __init__(
        self,
        server: ScriptedServer,
        *,
        resync: float | None = None,
        on_error: Callable[[GroupVersionKind, Exception], None] | None = None,
        transform: Transform | None = None,
        observer: InformerObserver | None = None,
        streaming: bool = False,
        random: Callable[[], float] = lambda: 0.0,
    ) -> None:
        loop = asyncio.get_running_loop()
        reflector = ReflectorOptions(streaming=streaming, random=random, clock=loop.time)

        async def resolve() -> RESTMapping:
            return MAPPING

        self.server = server
        self.informer = Informer(
            MAPPING,
            Selection(),
            InformerDeps(
                resolve=resolve,
                list_watch=lambda *_: server,
                options=InformerOptions(reflector=reflector, resync=resync, on_error=on_error),
                observer=observer or NoInformerObserver(),
            ),
            transform=transform,
        )
        self.told: list[Event] = []
        self.informer.add_handler(self.told.append)
        self.task = loop.create_task(self.informer.run())

    @property
    def names(self) -> list[str]:
        return sorted(entry.name for entry in self.informer.store)

    async def requests(self, count: int) -> None:
        """Until the server has been asked so often and its answer has been read."""
        async with asyncio.timeout(7200.0):
            while len(self.server.requests) < count:
                self.server.news.clear()
                await self.server.news.wait()
        await asyncio.sleep(0.01)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(3600.0):
            while not condition():  # noqa: ASYNC110 - virtual time costs nothing
                await asyncio.sleep(0.5)


Follow = Callable[..., Watched]


@pytest.fixture
async def follow() -> AsyncGenerator[Follow, None]:
    made: list[Watched] = []

    def start(server: ScriptedServer, **options: Unpack[WatchedOptions]) -> Watched:
        made.append(Watched(server, **options))
        return made[-1]

    yield start
    for watched in made:
        watched.task.cancel()
        await asyncio.gather(watched.task, return_exceptions=True)


@pytest.mark.criterion("RF-01")
async def test_a_consistent_list_then_a_watch_from_its_version(follow: Follow) -> None:
    server = ScriptedServer(
        [[page(10, obj("a", 3), obj("b", 4))]], [[event("ADDED", obj("c", 11)), 1e6]]
    )
    watched = follow(server)
    await watched.requests(2)
    assert server.log == ["list", "watch 10"]
    assert server.requests[0][1] == ("list", None, 500)
    assert watched.names == ["a", "b", "c"]


@pytest.mark.criterion("RF-02")
async def test_a_watch_ended_by_the_server_goes_on_from_the_last_version(follow: Follow) -> None:
    server = ScriptedServer(
        [[page(10)]],
        [[event("ADDED", obj("a", 12)), 300.0], [301.0], [event("ADDED", obj("b", 15))]],
    )
    watched = follow(server)
    await watched.requests(5)
    assert server.log == ["list", "watch 10", "watch 12", "watch 12", "watch 15"]


@pytest.mark.criterion("RF-03")
@pytest.mark.parametrize(
    "refusal", [Expired("too old"), status(410, "Expired"), status(410, "Gone")], ids=str
)
async def test_410_makes_it_list_again(follow: Follow, refusal: Step) -> None:
    server = ScriptedServer([[page(10, obj("a", 3))], [page(50, obj("b", 40))]], [[100.0, refusal]])
    watched = follow(server)
    await watched.requests(4)
    assert server.log == ["list", "watch 10", "list", "watch 50"]
    assert server.requests[2][0] == pytest.approx(100.0, abs=0.05)  # at once
    assert watched.names == ["b"]


async def test_410_right_after_a_list_does_not_make_it_run_in_circles(follow: Follow) -> None:
    server = ScriptedServer([[page(10)]] * 20, [[Expired("too old")]] * 20)
    follow(server)
    await asyncio.sleep(20.0)
    assert 4 <= len(server.requests) <= 14


@pytest.mark.criterion("RF-04")
async def test_too_large_resource_version_makes_it_list_without_one(follow: Follow) -> None:
    too_large = Timeout("Too large resource version: 10, current: 4")
    server = ScriptedServer([[page(10)], [page(12, obj("a", 11))]], [[too_large]])
    watched = follow(server)
    await watched.requests(4)
    assert server.log == ["list", "watch 10", "list", "watch 12"]
    assert server.requests[2][1] == ("list", None, 500)
    assert watched.names == ["a"]


@pytest.mark.criterion("RF-04")
async def test_a_server_restored_from_a_backup_is_believed_in_the_end(follow: Follow) -> None:
    too_large = Timeout("Too large resource version: 10, current: 4")
    restored: list[Step] = [page(4, obj("a", 3))]
    server = ScriptedServer(
        [[page(10, obj("a", 9), obj("b", 8))], restored, [too_large], restored], [[too_large]]
    )
    watched = follow(server)
    await watched.requests(4)
    assert watched.names == ["a", "b"]  # one older list is no reason to forget
    await watched.requests(6)
    assert server.log == ["list", "watch 10", "list", "list", "list", "watch 4"]
    assert [r[1] for _, r in server.requests[2:5]] == [None, "10", None]
    assert watched.names == ["a"]
    assert watched.informer.resource_version == 4


@pytest.mark.criterion("RF-04")
async def test_a_restored_server_that_keeps_a_watch_open_in_silence_is_found_out(
    follow: Follow,
) -> None:
    """As kube-apiserver does with a watch from a version that it has not come to."""
    too_large = Timeout("Too large resource version: 10, current: 4")
    restored: list[Step] = [page(4, obj("a", 3))]
    silence: list[Step] = [120.0, TransportError("no answer in time")]
    server = ScriptedServer(
        [[page(10, obj("a", 9), obj("b", 8))], [too_large], restored, [too_large], restored],
        [silence],
    )
    watched = follow(server)
    await watched.until(lambda: watched.names == ["a"])
    assert server.log == ["list", "watch 10", "list", "list", "list", "list", "watch 4"]
    assert server.requests[2][1] == ("list", "10", 1)


@pytest.mark.criterion("RF-05")
@pytest.mark.parametrize(
    "failure",
    [
        TooManyRequests("slow down"),
        TransportError("connection refused", sent=False),
        Forbidden("no"),
        APIError("bad gateway", code=502),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_failures_of_a_watch_wait_and_keep_the_store(
    follow: Follow, failure: Exception
) -> None:
    server = ScriptedServer(
        [[page(10, obj("a", 3))], [page(10)], [page(10)]], [[failure], [failure]]
    )
    watched = follow(server)
    await watched.until(lambda: server.log.count("watch 10") == 3)
    times = [at for at, each in server.requests if isinstance(each, WatchRequest)]
    times.insert(0, 0.0)
    assert times[2] - times[1] == pytest.approx(0.8, abs=0.05)
    assert times[3] - times[2] == pytest.approx(1.6, abs=0.05)
    assert watched.names == ["a"]
    assert watched.informer.last_error is failure


async def test_retry_after_is_honoured(follow: Follow) -> None:
    server = ScriptedServer([[page(10)]], [[TooManyRequests("slow down", retry_after=7.0)]])
    watched = follow(server)
    await watched.requests(3)
    assert server.requests[2][0] - server.requests[1][0] == pytest.approx(7.0, abs=0.05)


@pytest.mark.criterion("RF-06")
def test_backoff_grows_with_jitter_and_resets_after_two_healthy_minutes() -> None:
    now = 0.0
    draw = 0.0
    backoff = Backoff(BackoffOptions(), clock=lambda: now, random=lambda: draw)
    delays = []
    for _ in range(8):
        delays.append(backoff.delay())
        now += delays[-1]
    assert delays == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0]
    draw = 0.999
    assert 59.0 < backoff.delay() < 60.0
    now += 60.0 + 119.0
    assert backoff.delay() > 30.0
    now += 60.0 + 121.0
    assert 1.5 < backoff.delay() < 1.6


@pytest.mark.criterion("RF-07")
async def test_what_vanished_during_a_disconnect_is_reported_as_deleted(follow: Follow) -> None:
    server = ScriptedServer(
        [[page(10, obj("a", 3), obj("b", 4))], [page(50, obj("b", 4))]], [[60.0, Expired("old")]]
    )
    watched = follow(server)
    await watched.requests(4)
    gone = watched.told[-1]
    assert isinstance(gone, DeleteEvent)
    assert gone.unknown
    assert gone.old.decode()["data"] == {"k": "v"}


@pytest.mark.criterion("RF-08")
async def test_a_bookmark_advances_the_version_without_an_event(follow: Follow) -> None:
    server = ScriptedServer([[page(10)]], [[bookmark(99), 300.0]])
    watched = follow(server)
    await watched.requests(3)
    assert server.log[-1] == "watch 99"
    assert watched.told == []
    assert watched.informer.resource_version == 99


@pytest.mark.criterion("RF-09")
async def test_pages_are_followed_and_an_expired_page_makes_it_list_whole(follow: Follow) -> None:
    server = ScriptedServer(
        [
            [page(10, obj("a", 3), more="t"), Expired("token too old")],
            [page(11, obj("a", 3), obj("b", 4))],
        ]
    )
    watched = follow(server)
    await watched.requests(3)
    assert [r[1] for r in server.requests[:2]] == [("list", None, 500), ("list", None, 0)]
    assert watched.names == ["a", "b"]


@pytest.mark.criterion("RF-10")
async def test_watch_timeouts_are_random_between_five_and_ten_minutes(follow: Follow) -> None:
    draws = iter([0.0, 0.5, 0.999, 0.25])
    server = ScriptedServer([[page(10)]], [[2.0], [2.0], [2.0]])
    watched = follow(server, random=lambda: next(draws))
    await watched.requests(5)
    timeouts = [r.timeout for _, r in server.requests if isinstance(r, WatchRequest)]
    assert timeouts == pytest.approx([300.0, 450.0, 599.7, 375.0])


@pytest.mark.criterion("RF-11")
async def test_a_streaming_list_is_visible_only_once_it_is_whole(follow: Follow) -> None:
    server = ScriptedServer(
        [],
        [
            [
                event("ADDED", obj("a", 3)),
                event("ADDED", obj("b", 4)),
                bookmark(5),
                5.0,
                event("MODIFIED", obj("a", 6)),
                event("DELETED", obj("b", 7)),
                bookmark(9, initial_end=True),
                event("ADDED", obj("c", 10)),
                1e6,
            ]
        ],
    )
    watched = follow(server, streaming=True)
    await asyncio.sleep(4.0)
    assert watched.names == []
    assert not watched.informer.synced
    await watched.informer.wait_synced(5.0)
    await asyncio.sleep(0.1)
    assert watched.names == ["a", "c"]
    assert [type(e) for e in watched.told] == [CreateEvent, CreateEvent]
    assert [e.initial for e in watched.told if isinstance(e, CreateEvent)] == [True, False]
    assert len(server.requests) == 1  # the same stream serves as the watch
    request = server.requests[0][1]
    assert request.initial_events
    assert request.resource_version is None


@pytest.mark.criterion("RF-12")
async def test_a_server_without_streaming_lists_is_listed_in_pages(follow: Follow) -> None:
    refusal = Invalid("sendInitialEvents is forbidden for watch unless WatchList is enabled")
    server = ScriptedServer([[page(10, obj("a", 3))], [page(20)]], [[refusal], [60.0, Expired("")]])
    watched = follow(server, streaming=True)
    await watched.requests(5)
    assert server.log == ["watch None", "list", "watch 10", "list", "watch 20"]
    assert server.requests[1][0] == pytest.approx(0.0, abs=0.05)


@pytest.mark.criterion("RF-12")
@pytest.mark.parametrize("end", [[], [TransportError("reset")], [status(500, "InternalError")]])
async def test_a_broken_streaming_list_leaves_nothing_behind(
    follow: Follow, end: list[Step]
) -> None:
    server = ScriptedServer(
        [[page(10, obj("b", 3))]], [[event("ADDED", obj("a", 2)), 1.0, *end], [1e6]]
    )
    watched = follow(server, streaming=True)
    await watched.requests(3)
    assert watched.names == ["b"]
    assert [e.new.name for e in watched.told if isinstance(e, CreateEvent)] == ["b"]


@pytest.mark.criterion("SIM-F2")
@pytest.mark.criterion("R-7")
async def test_a_list_that_is_silent_in_a_stream_is_read_in_pages_before_the_start_gives_up(
    follow: Follow,
) -> None:
    server = ScriptedServer(
        [[page(10, obj("b", 3))]], [[20.0, event("ADDED", obj("a", 2)), 1e6], [1e6]]
    )
    watched = follow(server, streaming=True)
    await watched.requests(3)
    assert watched.names == ["b"]
    assert 50.0 <= server.requests[1][0] < 60.0


@pytest.mark.criterion("RF-13")
async def test_a_very_short_watch_without_events_waits(follow: Follow) -> None:
    server = ScriptedServer([[page(10)]], [[0.1], [0.1]])
    watched = follow(server)
    await watched.requests(4)
    times = [at for at, _ in server.requests]
    assert times[2] - times[1] == pytest.approx(0.9, abs=0.05)
    assert times[3] - times[2] == pytest.approx(1.7, abs=0.05)


@pytest.mark.criterion("R-6")
@pytest.mark.parametrize("every", [10.0, 35.0, 60.0])
@pytest.mark.parametrize("events", [False, True], ids=["quiet", "events"])
async def test_a_watch_that_a_load_balancer_cuts_goes_on_at_once(
    follow: Follow, every: float, events: bool
) -> None:
    """Within an hour it is never without a watch."""
    cut = TransportError("the server closed the connection before its answer was complete")
    news: list[Step] = [event("MODIFIED", obj("a", 11))] if events else []
    count = int(3600 / every)
    server = ScriptedServer([[page(10, obj("a", 3))]], [[*news, every, cut] for _ in range(count)])
    watched = follow(server)
    await watched.requests(count + 2)
    times = [at for at, _ in server.requests[1:]]
    assert times[-1] - times[0] == pytest.approx(every * count, abs=1.0)
    assert server.log[-1] == ("watch 11" if events else "watch 10")


@pytest.mark.criterion("R-6")
async def test_watches_that_end_at_once_again_and_again_lead_to_a_list(follow: Follow) -> None:
    server = ScriptedServer([[page(10)], [page(12, obj("a", 11))]], [[0.1], [0.1], [0.1]])
    watched = follow(server)
    await watched.until(lambda: watched.names == ["a"])
    assert server.log == ["list", "watch 10", "watch 10", "watch 10", "list", "watch 12"]


@pytest.mark.criterion("R-6")
async def test_a_connection_whose_peer_vanished_is_given_up_within_45_seconds() -> None:
    names = ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
    address = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 1))
    with contextlib.closing(_keepalive_socket(_any_socket, address)) as found:
        idle, interval, count = (
            found.getsockopt(socket.IPPROTO_TCP, getattr(socket, each)) for each in names
        )
    assert idle + interval * count <= 45


@pytest.mark.criterion("R-F8")
@pytest.mark.parametrize(
    "news", [event("MODIFIED", obj("a", 4)), bookmark(4)], ids=["event", "bookmark"]
)
async def test_a_version_below_the_one_that_a_watch_began_at_leads_to_a_list(
    follow: Follow, news: bytes
) -> None:
    restored: list[Step] = [page(4, obj("a", 4))]
    too_large = Timeout("Too large resource version: 10, current: 4")
    server = ScriptedServer(
        [[page(10, obj("a", 9), obj("b", 8))], restored, [too_large], restored], [[news, 1e6]]
    )
    watched = follow(server)
    await watched.until(lambda: watched.names == ["a"])
    assert server.log == ["list", "watch 10", "list", "list", "list", "watch 4"]


@pytest.mark.criterion("R-F8")
@pytest.mark.parametrize(
    "away",
    [
        TransportError("connection refused", sent=False),
        ServiceUnavailable("no backend"),
        TransportError("cut off"),
    ],
    ids=["refused", "proxy", "cut off"],
)
async def test_a_server_that_was_away_confirms_its_version(follow: Follow, away: Exception) -> None:
    """One that was restored meanwhile keeps a watch from a later version open in silence."""
    too_large = Timeout("Too large resource version: 10, current: 4")
    restored: list[Step] = [page(4, obj("a", 3))]
    server = ScriptedServer(
        [[page(10, obj("a", 9), obj("b", 8))], [too_large], restored, [too_large], restored],
        [[away]],
    )
    watched = follow(server)
    await watched.until(lambda: watched.names == ["a"])
    assert server.requests[2][1] == ("list", "10", 1)
    assert server.requests[-1][0] < 60.0


@pytest.mark.criterion("RF-21")
async def test_delete_and_recreate_between_events_is_an_update_with_another_uid(
    follow: Follow,
) -> None:
    server = ScriptedServer(
        [[page(10, obj("a", 3, uid="1"))]], [[event("MODIFIED", obj("a", 20, uid="2")), 1e6]]
    )
    watched = follow(server)
    await watched.requests(2)
    update = watched.told[-1]
    assert isinstance(update, UpdateEvent)
    assert (update.old.uid, update.new.uid) == ("1", "2")


async def test_garbage_in_a_watch_is_a_broken_watch(follow: Follow) -> None:
    server = ScriptedServer(
        [[page(10)]],
        [
            [event("ADDED", obj("a", 11)), b'{"type": "ADDED", "obj'],
            [event("ADDED", obj("b", 12)), 1e6],
        ],
    )
    watched = follow(server)
    await watched.requests(3)
    assert server.log == ["list", "watch 10", "watch 11"]
    assert watched.names == ["a", "b"]


async def test_an_object_that_cannot_be_read_does_not_hide_the_others(follow: Follow) -> None:
    server = ScriptedServer(
        [[page(10, {"metadata": {"name": 7}}, obj("a", 3))]],
        [[event("ADDED", {"metadata": []}), 1e6]],
    )
    watched = follow(server)
    await watched.requests(2)
    assert watched.names == ["a"]
    assert watched.informer.synced


@pytest.mark.criterion("RF-22")
async def test_every_failure_is_reported_even_to_one_who_fails(follow: Follow) -> None:
    refused, cut_off = Forbidden("no"), TransportError("cut off")
    unreadable = {"metadata": {"name": 7}}
    server = ScriptedServer(
        [[refused], [page(10, unreadable, obj("a", 3))], [page(10)]], [[cut_off]]
    )
    failures: list[tuple[GroupVersionKind, Exception]] = []

    def report(gvk: GroupVersionKind, error: Exception) -> None:
        failures.append((gvk, error))
        raise RuntimeError("whoever listens fails too")

    watched = follow(server, on_error=report)
    await watched.requests(5)
    assert server.log == ["list", "list", "watch 10", "list", "watch 10"]
    assert {gvk for gvk, _ in failures} == {MAPPING.gvk}
    assert [error for _, error in failures if error in (refused, cut_off)] == [refused, cut_off]
    assert len(failures) == 3
    assert watched.names == ["a"]


@pytest.mark.criterion("RF-20")
async def test_a_transform_sees_each_object_once_before_store_and_handlers(follow: Follow) -> None:
    seen: list[str] = []
    failures: list[Exception] = []

    def transform(entry: Entry) -> Entry:
        seen.append(entry.name)
        if entry.name == "bad":
            raise ValueError("not this one")
        entry.fields.pop("data", None)
        return entry

    server = ScriptedServer(
        [[page(10, obj("good", 3), obj("bad", 4))]], [[event("ADDED", obj("late", 11)), 1e6]]
    )
    watched = follow(
        server, transform=transform, on_error=lambda _kind, error: failures.append(error)
    )
    watched.informer.add_handler(lambda _event: None)
    await watched.requests(2)
    assert seen == ["good", "bad", "late"]
    assert watched.names == ["good", "late"]
    assert [type(error) for error in failures] == [ValueError]
    assert [e.new.decode().get("data") for e in watched.told if isinstance(e, CreateEvent)] == [
        None,
        None,
    ]


@pytest.mark.criterion("PF-2")
async def test_an_event_of_the_state_that_the_store_holds_is_not_decoded_again(
    follow: Follow,
) -> None:
    """So come the events of our own writes, whose answers are in the store already."""
    seen: list[tuple[str, str]] = []

    def transform(entry: Entry) -> Entry:
        seen.append((entry.uid, entry.resource_version))
        return entry

    events = [
        event("MODIFIED", obj("held", 3)),
        event("MODIFIED", obj("held", 11)),
        event("MODIFIED", obj("held", 11)),
        event("ADDED", obj("held", 12, uid="another")),
        event("MODIFIED", obj("other", 13)),
    ]
    watched = follow(
        ScriptedServer([[page(3, obj("held", 3))]], [[*events, 1e6]]), transform=transform
    )
    await watched.until(lambda: "other" in watched.names)
    assert seen == [
        ("uid-held", "3"),
        ("uid-held", "11"),
        ("another", "12"),
        ("uid-other", "13"),
    ]
    assert [e.new.resource_version for e in watched.told if isinstance(e, UpdateEvent)] == [
        "11",
        "12",
    ]


@pytest.mark.criterion("RF-14")
async def test_synced_means_that_the_first_list_went_through_store_and_handlers(
    follow: Follow,
) -> None:
    first = [obj(f"a{number:03}", 3) for number in range(300)]
    second = [obj(f"b{number:03}", 3) for number in range(300)]
    watched = follow(
        ScriptedServer([[page(10, *first, more="t"), 2.0, page(10, *second)]], [[1e6]])
    )
    early: list[bool] = []
    registration = watched.informer.add_handler(lambda _: early.append(watched.informer.synced))
    await asyncio.sleep(1.0)
    assert not watched.informer.synced
    await watched.informer.wait_synced(60.0)
    assert registration.synced
    assert len(watched.informer.store) == len(early) == 600
    assert not any(early)


@pytest.mark.criterion("RF-16")
async def test_a_late_handler_is_called_in_slices(follow: Follow) -> None:
    objects = [obj(f"m{number:04}", 3) for number in range(2000)]
    watched = follow(ScriptedServer([[page(10, *objects)]], [[1e6]]))
    await watched.informer.wait_synced(60.0)
    others = 0

    async def other() -> None:
        nonlocal others
        while True:
            others += 1
            await asyncio.sleep(0)

    ticking = asyncio.create_task(other())
    told: list[Event] = []
    registration = watched.informer.add_handler(told.append)
    await registration.wait_synced(60.0)
    ticking.cancel()
    assert len(told) == 2000
    assert others >= 10


@pytest.mark.criterion("RF-16")
async def test_a_consumer_that_hangs_holds_up_no_other(follow: Follow) -> None:
    """Handlers only note; what is slow stands behind a queue."""
    names = [f"m{number}" for number in range(50)]
    server = ScriptedServer(
        [[page(10)]], [[*(event("ADDED", obj(name, 11 + n)) for n, name in enumerate(names)), 1e6]]
    )
    watched = follow(server)
    queues = {"hangs": PriorityQueue(), "works": PriorityQueue()}
    done: list[str] = []

    async def consume(name: str) -> None:
        while True:
            item = await queues[name].get()
            if name == "hangs":
                await asyncio.Event().wait()
            done.append(item.request.name)
            queues[name].done(item.request)

    def note(queue: PriorityQueue) -> Callable[[Event], None]:
        def handler(event: Event) -> None:
            assert isinstance(event, CreateEvent)
            queue.add(Request(event.new.name, namespace=event.new.namespace))

        return handler

    workers = [asyncio.create_task(consume(name)) for name in queues]
    for queue in queues.values():
        watched.informer.add_handler(note(queue))
    await watched.requests(2)
    assert sorted(done) == sorted(names)
    assert len(queues["hangs"]) == 49
    for worker in workers:
        worker.cancel()


@pytest.mark.criterion("RF-17")
async def test_a_handler_that_raises_is_logged_and_counted_each_time(follow: Follow) -> None:
    failed: list[GroupVersionKind] = []

    class Observer(NoInformerObserver):
        def handler_failed(self, gvk: GroupVersionKind) -> None:
            failed.append(gvk)

    def fail(event: Event) -> None:
        raise RuntimeError("broken handler")

    server = ScriptedServer([[page(10, obj("a", 3))]], [[5.0, event("ADDED", obj("b", 11)), 1e6]])
    with capture_logs() as logs:
        watched = follow(server, observer=Observer())
        watched.informer.add_handler(fail)
        await watched.until(lambda: len(watched.told) == 2)
    assert watched.names == ["a", "b"]
    assert failed == [MAPPING.gvk] * 2
    lines = [line for line in logs if line["event"].startswith("an event handler failed")]
    assert [line["key"] for line in lines] == [("ns", "a"), ("ns", "b")]


@pytest.mark.criterion("RF-16")
async def test_an_async_handler_is_refused(follow: Follow) -> None:
    watched = follow(ScriptedServer([[page(10)]], [[1e6]]))

    async def slow(event: Event) -> None: ...

    with pytest.raises(TypeError, match="put work into a queue"):
        watched.informer.add_handler(slow)  # type: ignore[arg-type]


@pytest.mark.criterion("RF-18")
async def test_a_handler_removed_during_delivery_is_called_no_more(follow: Follow) -> None:
    objects = [obj(f"m{number:04}", 3) for number in range(2000)]
    watched = follow(
        ScriptedServer([[page(10, *objects)]], [[5.0, event("ADDED", obj("late", 11)), 1e6]])
    )
    await watched.informer.wait_synced(60.0)
    told: list[Event] = []
    registration = watched.informer.add_handler(told.append)
    await asyncio.sleep(0)
    registration.remove()
    heard = len(told)
    await watched.until(lambda: "late" in watched.names)
    assert len(told) == heard < 2000


@pytest.mark.criterion("LV-8")
async def test_a_doubt_is_not_settled_by_a_list_that_is_only_not_older_than_a_version(
    follow: Follow, entry_of: Callable[..., Any]
) -> None:
    server = ScriptedServer(
        [[page(10)], [page(15)], [page(31, obj("a", 30))], [page(40, obj("a", 30))]],
        [[50.0, Expired("old")], [50.0, Expired("old")]],
    )
    watched = follow(server)
    await watched.requests(2)
    watched.informer.wrote(entry_of("a", uid="uid-a", resourceVersion="30"))
    watched.informer.doubt(("ns", "unanswered"))
    await watched.requests(5)  # a list that is refused, one not older than 30, a watch
    assert watched.names == ["a"]
    assert watched.informer.unconfirmed(("ns", "unanswered"))
    await watched.requests(7)
    assert not watched.informer.unconfirmed(("ns", "unanswered"))


async def test_a_list_older_than_our_own_write_is_repeated_not_older_than_it(
    follow: Follow, entry_of: Callable[..., Any]
) -> None:
    server = ScriptedServer(
        [[page(10)], [page(15)], [page(31, obj("a", 30))]], [[50.0, Expired("old")]]
    )
    watched = follow(server)
    await watched.requests(2)
    watched.informer.wrote(entry_of("a", uid="uid-a", resourceVersion="30"))
    await watched.requests(5)
    lists = [r[1] for _, r in server.requests if isinstance(r, tuple)]
    assert lists == [None, None, "30"]
    assert watched.names == ["a"]
    assert not any(isinstance(e, DeleteEvent) for e in watched.told)


async def test_a_server_restored_from_a_backup_is_believed_after_three_lists(
    follow: Follow, entry_of: Callable[..., Any]
) -> None:
    too_large = Timeout("Too large resource version: 30, current: 15")
    server = ScriptedServer(
        [[page(10)], [page(15)], [too_large], [page(15)], [page(16, obj("b", 14))]],
        [[50.0, Expired("old")]],
    )
    watched = follow(server)
    await watched.requests(2)
    watched.informer.wrote(entry_of("a", uid="uid-a", resourceVersion="30"))
    await watched.until(lambda: watched.names == ["b"])
    assert server.log[-1] == "watch 16"


async def test_a_missing_kind_is_reported_and_found_when_it_appears(follow: Follow) -> None:
    not_served = NotFound("the server could not find the requested resource")
    server = ScriptedServer([[not_served], [not_served], [page(10, obj("a", 3))]])
    watched = follow(server)
    await watched.requests(2)
    assert watched.informer.missing_since is not None
    assert server.requests[1][0] == pytest.approx(10.0, abs=0.1)
    watched.informer.discovery_changed()
    await watched.informer.wait_synced(1.0)
    assert watched.informer.missing_since is None
    assert watched.names == ["a"]


async def test_a_kind_that_is_served_for_a_moment_after_its_crd_is_found_missing(
    follow: Follow,
) -> None:
    """The list after the deletion still succeeds, and the watch that follows stays open in silence."""
    not_served = NotFound("404 page not found")
    watched = follow(ScriptedServer([[page(1, obj("a", 1))], [page(2)], [not_served]]))
    await watched.requests(2)
    watched.informer.check_served()
    await watched.until(lambda: watched.informer.missing_since is not None)
    assert watched.server.log == ["list", "watch 1", "list", "watch 2", "list"]
    between = watched.server.requests[4][0] - watched.server.requests[2][0]
    assert between == pytest.approx(1.0, abs=0.1)


async def test_a_kind_that_came_back_at_once_is_checked_a_few_times(follow: Follow) -> None:
    lists: list[list[Step]] = [[page(number)] for number in range(1, 6)]
    watched = follow(ScriptedServer(lists))
    await watched.requests(2)
    watched.informer.check_served()
    await asyncio.sleep(600.0)
    assert watched.server.log.count("list") == 5
    assert watched.informer.missing_since is None
