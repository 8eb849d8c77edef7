"""The transport against a scripted peer: time limits, retries, broken connections, long lines."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web

from ctrlruntime.client.answer_limits import AnswerSize
from ctrlruntime.client.auth import FileAuth
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import (
    APIError,
    Expired,
    InternalError,
    NotFound,
    ServiceUnavailable,
    TooManyRequests,
    TransportError,
    WriteOutcomeUnknown,
)
from ctrlruntime.client.fence import Fence
from ctrlruntime.client.line_splitter import LineSplitter
from ctrlruntime.client.metrics import RequestObserver
from ctrlruntime.client.transport import Transport, TransportOptions, warnings_of
from tests.client.peer import Answer, Peer, fails, hangs_up, says, streams
from tests.client.stalling_tls_server import Doorman
from tests.client.support import Seen


class Slept:
    """Stands for sleeping."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def transport(
    peer: Peer,
    options: TransportOptions | None = None,
    *,
    observer: RequestObserver | None = None,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    on_warning: Callable[[str], None] | None = None,
) -> Transport:
    config = Config(host=peer.url)
    return Transport(config, options, observer=observer, sleep=sleep, on_warning=on_warning)


async def test_bodies_are_bytes_and_headers_name_the_caller() -> None:
    async with Peer(says({"kind": "X"})) as peer, transport(peer) as client:
        response = await client.request(
            "POST", "/api/v1/x", params={"labelSelector": "a in (b,c)"}, body=b'{"a":1}'
        )
        assert (response.status, response.body) == (200, b'{"kind": "X"}')
        (request,) = peer.requests
        assert peer.bodies == [b'{"a":1}']
        assert request.query["labelSelector"] == "a in (b,c)"
        assert request.headers["Content-Type"] == "application/json"
        assert request.headers["User-Agent"].startswith("ctrlruntime")
        assert request.headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize(
    ("answer", "retried"),
    [
        (fails(429, "TooManyRequests"), True),
        (fails(429, "TooManyRequests", retry_after=3), True),
        (fails(503, "ServiceUnavailable", retry_after=3), True),
        (fails(500, "InternalError"), False),
        (fails(404, "NotFound", retry_after=3), False),
    ],
)
async def test_429_and_5xx_with_retry_after_are_repeated(answer: Answer, retried: bool) -> None:
    slept, seen = Slept(), Seen()
    async with (
        Peer(answer, answer, says({})) as peer,
        transport(peer, sleep=slept, observer=seen) as client,
    ):
        if not retried:
            with pytest.raises((InternalError, NotFound)):
                await client.request("GET", "/x")
            assert len(peer.requests) == 1
            return
        assert (await client.request("POST", "/x", body=b"{}")).status == 200
        assert len(peer.requests) == 3
        assert peer.bodies == [b"{}"] * 3
        assert slept.seconds in ([1.0, 1.0], [3.0, 3.0])
        assert len(seen.retries) == 2
        assert [code for _, code in seen.requests][-1] == "200"


async def test_retries_end_after_ten() -> None:
    slept = Slept()
    refusal = fails(429, "TooManyRequests", retry_after=1)
    async with Peer(refusal) as peer, transport(peer, sleep=slept) as client:
        with pytest.raises(TooManyRequests) as error:
            await client.request("GET", "/x")
        assert len(peer.requests) == 11
        assert error.value.retry_after == 1.0


async def test_a_very_long_retry_after_is_cut() -> None:
    slept = Slept()
    refusal = fails(503, "ServiceUnavailable", retry_after=86_400)
    async with Peer(refusal, says({})) as peer, transport(peer, sleep=slept) as client:
        await client.request("GET", "/x")
        assert slept.seconds == [60.0]


class TestNoAnswer:
    async def test_a_read_is_a_transport_error(self) -> None:
        async with Peer(hangs_up()) as peer, transport(peer) as client:
            with pytest.raises(TransportError) as error:
                await client.request("GET", "/x")
            assert not isinstance(error.value, WriteOutcomeUnknown)

    @pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
    async def test_the_outcome_of_a_write_is_unknown_and_it_is_not_sent_again(
        self, method: str
    ) -> None:
        async with Peer(says({}), hangs_up()) as peer, transport(peer) as client:
            await client.request("GET", "/x")  # so that the next goes out on a kept connection
            with pytest.raises(WriteOutcomeUnknown, match=method):
                await client.request(method, "/x", body=b"{}")
            assert len(peer.requests) == 2

    async def test_an_answer_cut_off_is_none(self) -> None:
        async with Peer(hangs_up(b'{"half')) as peer, transport(peer) as client:
            with pytest.raises(WriteOutcomeUnknown):
                await client.request("PUT", "/x", body=b"{}")

    async def test_a_refused_connection_was_not_sent(self) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            config = Config(host=f"http://127.0.0.1:{taken.getsockname()[1]}")
            async with Transport(config) as client:
                with pytest.raises(TransportError) as error:
                    await client.request("PUT", "/x", body=b"{}")
        assert not error.value.sent
        assert not isinstance(error.value, WriteOutcomeUnknown)

    @pytest.mark.parametrize("fence", [None, lambda: None], ids=["unfenced", "fenced"])
    async def test_a_connection_not_made_in_time_is_tried_again_for_writes_too(
        self, fence: Fence | None
    ) -> None:
        seen = Seen()
        options = TransportOptions(connect_timeout=0.3, connect_attempts=100)
        async with Doorman(ignored=2) as door:
            config = Config(host=door.url, verify=False)
            async with Transport(config, options, observer=seen, fence=fence) as client:
                await client.request("POST", "/x")
            assert door.requests == [b"POST /x HTTP/1.1"]
            assert 3 <= door.callers <= len(seen.requests)
        assert set(seen.retries) == {"<error>"}

    async def test_without_a_connection_a_write_was_certainly_not_sent(self) -> None:
        """However short the time for its answer is, which begins when it is sent."""
        seen = Seen()
        options = TransportOptions(connect_timeout=0.3)
        async with Doorman(ignored=100) as door:
            config = Config(host=door.url, verify=False)
            async with Transport(config, options, observer=seen) as client:
                with pytest.raises(TransportError, match="POST /x: Connection timeout") as error:
                    await client.request("POST", "/x", timeout=0.01)
                with pytest.raises(TransportError, match="watch of /x: Connection timeout"):
                    await anext(client.watch_lines("/x", {}, inactivity=5.0))
        assert len(seen.requests) == options.connect_attempts + 1
        assert not error.value.sent
        assert not isinstance(error.value, WriteOutcomeUnknown)

    async def test_silence_ends_at_the_time_limit(self) -> None:
        peer = Peer()
        peer.answers = [peer.hang]
        async with peer, transport(peer) as client:
            with pytest.raises(WriteOutcomeUnknown, match="no answer in time"):
                await client.request("PATCH", "/x", body=b"{}", timeout=0.05)

    async def test_a_closed_transport_reports_it(self) -> None:
        async with Peer(says({})) as peer:
            client = transport(peer)
            await client.close()
            with pytest.raises(TransportError, match="closed"):
                await client.request("GET", "/x")


class TestWatch:
    async def test_lines_of_any_length(self) -> None:
        long = b'"' + b"x" * 6_000_000 + b'"'
        chunks = streams(b'"a"\n"b', b'"\n', long + b"\n", b'"c"')
        async with Peer(chunks) as peer, transport(peer) as client:
            lines = [line async for line in client.watch_lines("/x", {"a": "1"}, inactivity=5.0)]
        assert lines == [b'"a"', b'"b"', long, b'"c"']

    async def test_a_silent_peer_is_noticed(self) -> None:
        peer = Peer()
        peer.answers = [streams(b'"a"\n', then=lambda: peer.released.wait())]
        async with peer, transport(peer) as client:
            lines = client.watch_lines("/x", {}, inactivity=0.05)
            assert await anext(lines) == b'"a"'
            with pytest.raises(TransportError):
                await anext(lines)

    async def test_a_broken_stream_is_a_transport_error(self) -> None:
        async with Peer(hangs_up(b'"a"\n"b')) as peer, transport(peer) as client:
            lines = client.watch_lines("/x", {}, inactivity=5.0)
            with pytest.raises(TransportError):
                async for _ in lines:
                    pass

    async def test_a_refused_watch_is_an_api_error(self) -> None:
        async with Peer(fails(410, "Expired")) as peer, transport(peer) as client:
            with pytest.raises(Expired):
                await anext(client.watch_lines("/x", {}, inactivity=5.0))

    async def test_watches_do_not_use_up_the_places_of_requests(self) -> None:
        peer = Peer()
        watched = streams(b'"a"\n', then=lambda: peer.released.wait())
        peer.answers = [watched, watched, says({})]
        options = TransportOptions(max_requests=1)
        async with peer, transport(peer, options=options) as client:
            watches = [client.watch_lines("/x", {}, inactivity=5.0) for _ in range(2)]
            for watch in watches:
                assert await anext(watch) == b'"a"'
            assert (await client.request("GET", "/x")).status == 200
            for watch in watches:
                await watch.aclose()


async def test_list_pages_follow_the_token_and_drop_the_version() -> None:
    first = says({"metadata": {"resourceVersion": "5", "continue": "t"}, "items": []})
    last = says({"metadata": {"resourceVersion": "5"}, "items": []})
    async with Peer(first, last) as peer, transport(peer) as client:
        params = {"resourceVersion": "3", "resourceVersionMatch": "NotOlderThan"}
        pages = [page async for page in client.list_pages("/x", params, limit=7)]
        assert len(pages) == 2
        assert dict(peer.requests[0].query) == {**params, "limit": "7"}
        assert dict(peer.requests[1].query) == {"limit": "7", "continue": "t"}


async def test_an_answer_that_is_no_status_still_has_a_type_and_text() -> None:
    async with Peer(says(b"upstream is away", status=503)) as peer, transport(peer) as client:
        with pytest.raises(ServiceUnavailable, match="upstream is away"):
            await client.request("GET", "/x")
    async with Peer(says(b"", status=418)) as peer, transport(peer) as client:
        with pytest.raises(APIError) as error:
            await client.request("GET", "/x")
        assert error.value.code == 418


async def test_warnings_are_reported_once_per_response() -> None:
    told: list[str] = []
    header = '299 - "old \\"thing\\"", 299 - "second"'
    answer = says({}, headers={"Warning": header})
    async with Peer(answer) as peer, transport(peer, on_warning=told.append) as client:
        await client.request("GET", "/x")
    assert told == ['old "thing"', "second"]
    assert warnings_of(["199 - no", "nonsense", '299 host "yes"']) == ["yes"]


async def test_a_refused_token_is_read_again_once(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("old\n")
    async with Peer(says({}), fails(401, "Unauthorized"), says({})) as peer:
        async with Transport(Config(host=peer.url, auth=FileAuth(path))) as client:
            await client.request("GET", "/x")
            path.write_text("new\n")
            await client.request("GET", "/x")
        sent = [request.headers["Authorization"] for request in peer.requests]
        assert sent == ["Bearer old", "Bearer old", "Bearer new"]


async def test_no_more_requests_at_once_than_allowed() -> None:
    at_once = most = 0

    async def answer(_request: web.Request) -> web.StreamResponse:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await asyncio.sleep(0.005)
        at_once -= 1
        return await says({})(_request)

    options = TransportOptions(max_requests=3)
    async with Peer(answer) as peer, transport(peer, options=options) as client:
        await asyncio.gather(*(client.request("GET", "/x") for _ in range(12)))
    assert most == 3


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_line_splitter_gives_the_same_lines_for_any_chunks(size: int) -> None:
    text = b"one\n\ntwo\nthree is longer\nrest"
    splitter = LineSplitter(AnswerSize(100))
    lines = []
    for start in range(0, len(text), size):
        lines += splitter.feed(text[start : start + size])
    assert lines == [b"one", b"two", b"three is longer"]
    assert splitter.rest == b"rest"
