"""Every fault of the proxy, fired where its rule says and nowhere else.

Writes are patches: aiohttp's client repeats a PUT by itself when a reused connection breaks.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time

import aiohttp
import orjson
import pytest

from ctrlruntime.envtest.proxy import (
    Cut,
    Delay,
    Fail,
    Kill,
    LoseReply,
    Match,
    Proxy,
    Rule,
    StaleReads,
)
from tests.support.waiting import eventually

from .upstream import Upstream

PODS = "/api/v1/namespaces/ns/pods"
BROKEN = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)


async def sleeper() -> asyncio.subprocess.Process:
    """A process to kill."""
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", "import time; time.sleep(600)"
    )


async def write(session: aiohttp.ClientSession, proxy: Proxy, name: str = "a") -> int:
    async with session.patch(f"{proxy.url}{PODS}/{name}", data=b"{}") as response:
        await response.read()
        return response.status


async def version(session: aiohttp.ClientSession, proxy: Proxy, path: str = PODS) -> int:
    async with session.get(f"{proxy.url}{path}") as response:
        return int(orjson.loads(await response.read())["version"])


async def test_kill_before_the_nth_write_keeps_it_from_the_server(
    proxy: Proxy, upstream: Upstream, session: aiohttp.ClientSession
) -> None:
    victim = await sleeper()
    proxy.add(Kill(victim.pid, "before"), Match(verb="write"), nth=2)

    await version(session, proxy)
    await write(session, proxy)
    with pytest.raises(BROKEN):
        await write(session, proxy)

    assert await victim.wait() == -signal.SIGKILL
    assert upstream.arrived[f"PATCH {PODS}/a"] == 1
    assert proxy.log.counts().writes == 1


async def test_kill_after_the_nth_write_leaves_it_committed_and_unanswered(
    proxy: Proxy, upstream: Upstream, session: aiohttp.ClientSession
) -> None:
    victim = await sleeper()
    rule = proxy.add(Kill(victim.pid, "after"), Match(verb="write"), nth=2)

    await write(session, proxy)
    await write(session, proxy, "missing")  # refused: nothing was committed
    assert rule.matched == 1
    with pytest.raises(BROKEN):
        await write(session, proxy)

    assert await victim.wait() == -signal.SIGKILL
    assert upstream.arrived[f"PATCH {PODS}/a"] == 2
    assert proxy.log.counts().select(code=200).writes == 2


async def test_a_dry_run_commits_nothing(proxy: Proxy, session: aiohttp.ClientSession) -> None:
    victim = await sleeper()
    rule = proxy.add(Kill(victim.pid, "after"), Match(verb="write"))
    await session.put(f"{proxy.url}{PODS}/a?dryRun=All", data=b"{}")
    assert rule.fired == 0
    victim.kill()
    await victim.wait()


@pytest.mark.parametrize("pid", [-1, 0, 1])
def test_only_single_other_processes_are_killed(pid: int) -> None:
    with pytest.raises(ValueError, match="pid"):
        Kill(pid)


async def test_a_lost_reply_is_a_write_that_happened(
    proxy: Proxy, upstream: Upstream, session: aiohttp.ClientSession
) -> None:
    proxy.add(LoseReply(), Match(verb="patch", name="a"))

    with pytest.raises(BROKEN):
        await write(session, proxy)

    assert upstream.arrived[f"PATCH {PODS}/a"] == 1
    assert [(e.code, e.injected) for e in proxy.log.entries()] == [(200, "LoseReply")]
    assert await write(session, proxy) == 200, "the rule is spent"


async def test_a_cut_request_never_arrives(
    proxy: Proxy, upstream: Upstream, session: aiohttp.ClientSession
) -> None:
    proxy.add(Cut(), Match(verb="patch"))
    with pytest.raises(BROKEN):
        await write(session, proxy)
    assert not upstream.arrived


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_delay_holds_one_request_and_no_other(
    when: str, proxy: Proxy, session: aiohttp.ClientSession
) -> None:
    proxy.add(Delay(0.2, when=when), Match(name="slow"))  # type: ignore[arg-type]
    start = time.monotonic()
    slow = asyncio.create_task(write(session, proxy, "slow"))
    assert await write(session, proxy, "quick") == 200
    assert not slow.done()
    assert await slow == 200
    assert time.monotonic() - start >= 0.2


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (429, "TooManyRequests"),
        (500, "InternalError"),
        (503, "ServiceUnavailable"),
        (409, "Conflict"),
    ],
)
async def test_errors_are_answered_as_the_server_would(
    code: int, reason: str, proxy: Proxy, upstream: Upstream, session: aiohttp.ClientSession
) -> None:
    proxy.add(Fail(code, retry_after=7), Match(verb="patch"), times=2)

    for _ in range(2):
        async with session.patch(f"{proxy.url}{PODS}/a", data=b"x" * 300_000) as response:
            status = orjson.loads(await response.read())
            assert response.status == code
            assert response.headers["Retry-After"] == "7"
            assert (status["kind"], status["code"], status["reason"]) == ("Status", code, reason)
    assert not upstream.arrived
    assert await write(session, proxy) == 200
    assert [e.injected for e in proxy.log.entries()] == ["Fail", "Fail", ""]


async def test_rules_match_by_user_kind_namespace_and_name(
    proxy: Proxy, session: aiohttp.ClientSession
) -> None:
    rule = proxy.add(
        Fail(500),
        Match(user="alice", resource="pods", namespace="n*", name="web-*", verb="get"),
        times=None,
    )
    for path, failed in [
        (f"{PODS}/web-1", True),
        (f"{PODS}/db-1", False),
        (f"{PODS}/web-1/status", False),
        ("/api/v1/namespaces/other/pods/web-1", False),
    ]:
        async with session.get(f"{proxy.url}{path}") as response:
            assert (response.status == 500) is failed, path
    async with aiohttp.ClientSession() as other, other.get(f"{proxy.url}{PODS}/web-1") as response:
        assert response.status == 200
    assert (rule.matched, rule.fired) == (1, 1)


async def test_frozen_reads_show_the_first_answer_until_the_rule_goes(
    proxy: Proxy, upstream: Upstream, session: aiohttp.ClientSession
) -> None:
    rule = proxy.add(StaleReads(), Match(verb="read", resource="pods"), times=None)

    assert await version(session, proxy) == 1
    upstream.version = 2
    assert await version(session, proxy) == 1
    assert await version(session, proxy, "/api/v1/nodes") == 2, "another kind is not concerned"
    assert rule.fired == 1
    proxy.remove(rule)
    assert await version(session, proxy) == 2


async def test_reads_can_lag_behind_by_a_number_of_answers(
    proxy: Proxy, upstream: Upstream, session: aiohttp.ClientSession
) -> None:
    proxy.add(StaleReads(behind=2), times=None)
    seen = []
    for upstream.version in (1, 2, 3, 4):
        seen.append(await version(session, proxy))
    assert seen == [1, 2, 1, 2]


async def test_someone_can_wait_for_a_fault(proxy: Proxy, session: aiohttp.ClientSession) -> None:
    told = []
    rule = proxy.add(LoseReply(), notify=lambda _, info: told.append(info.name))
    waiter = asyncio.create_task(proxy.wait_fired(rule))
    with pytest.raises(BROKEN):
        await write(session, proxy, "x")
    await waiter
    assert told == ["x"]


async def test_a_client_that_dies_does_not_hide_its_write_from_the_log(
    proxy: Proxy, upstream: Upstream
) -> None:
    upstream.gate.clear()
    _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(b"PUT /api/v1/nodes/n HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
    await upstream.entered.wait()
    writer.transport.abort()
    await eventually(lambda: proxy.connections == 0)
    upstream.gate.set()
    await eventually(lambda: proxy.log.counts().writes == 1)


def test_a_rule_that_could_never_fire_is_refused() -> None:
    with pytest.raises(ValueError, match="counts from 1"):
        Rule(match=Match(), action=Cut(), nth=0)
