"""What a candidate hears of the Lease between polls, and how long a term lasts; on virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

import pytest

from ctrlruntime.client.auth import CallbackAuth, FileAuth, StaticAuth
from ctrlruntime.manager.election import NEVER, ElectionOptions
from ctrlruntime.manager.leadership import PATIENCE, shared
from ctrlruntime.manager.lease import LeaderRecord
from tests.manager.test_election import Candidate, Lock, Store, now, running

pytestmark = [pytest.mark.criterion("hand-over"), pytest.mark.looptime]


class Stream:
    """Changes as a watch tells them."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[LeaderRecord | Exception | None] = asyncio.Queue()
        self.opened = 0

    async def changes(self) -> AsyncGenerator[LeaderRecord | None, None]:
        self.opened += 1
        while True:
            change = await self.queue.get()
            if isinstance(change, Exception):
                raise change
            yield change


def listening(store: Store, options: ElectionOptions | None = None) -> tuple[Candidate, Stream]:
    stream = Stream()
    candidate = Candidate(store, "heir", options)
    candidate.elector._changes = stream.changes
    return candidate, stream


def held(store: Store) -> LeaderRecord:
    record = LeaderRecord(holder="first", lease_duration=15)
    store.put(record)
    return record


@pytest.mark.parametrize("deleted", [False, True])
async def test_a_release_that_is_heard_of_is_taken_at_once(deleted: bool) -> None:
    store = Store()
    record = held(store)
    candidate, stream = listening(store)
    async with running(candidate):
        await asyncio.sleep(5)
        released = None if deleted else replace(record, holder="", lease_duration=1)
        store.record = released
        store.version += 1
        stream.queue.put_nowait(released)
        since = now()
        await candidate.started.wait()
        assert now() - since < 0.1


async def test_a_lease_is_taken_when_it_runs_out_not_at_the_next_poll() -> None:
    store = Store()
    held(store)
    candidate, _ = listening(store)
    began = now()
    async with running(candidate):
        await candidate.started.wait()
        assert 15 <= now() - began <= 15.3


async def test_renewals_that_are_heard_of_prolong_the_wait_without_a_request() -> None:
    store = Store()
    record = held(store)
    slow = ElectionOptions(lease_duration=15, renew_deadline=10, retry_period=8)
    candidate, stream = listening(store, slow)
    async with running(candidate):
        await asyncio.sleep(7)
        requests = len(store.requests)
        renewed = replace(record, transitions=1)
        store.put(renewed)
        stream.queue.put_nowait(renewed)
        heard = now()
        await asyncio.sleep(0.5)
        assert len(store.requests) == requests
        await candidate.started.wait()
        assert now() - heard >= 15


async def test_polls_go_on_when_the_watch_fails() -> None:
    store = Store()
    held(store)
    candidate, stream = listening(store)
    async with running(candidate):
        for _ in range(3):
            stream.queue.put_nowait(ConnectionError("no watch today"))
        await candidate.started.wait()
        assert stream.opened > 3


async def test_a_term_counts_from_when_the_renewal_was_sent() -> None:
    store = Store()
    candidate = Candidate(store, "first")
    elector = candidate.elector
    async with running(candidate):
        await candidate.started.wait()
        assert elector.term.may_write_until == pytest.approx(now() - 0.01 + 12)
        assert elector.term.expires == pytest.approx(now() - 0.01 + 15)
    assert elector.term.may_write_until == elector.term.expires == NEVER


async def test_a_term_is_never_longer_than_the_lease() -> None:
    tight = ElectionOptions(lease_duration=4, renew_deadline=3.9, retry_period=1)
    candidate = Candidate(Store(), "first", tight)
    async with running(candidate):
        await candidate.started.wait()
        assert candidate.elector.term.may_write_until <= now() + 4


async def test_reading_our_own_record_prolongs_nothing() -> None:
    """The answer to a renewal was lost; others may have seen it long before we read it."""

    class Deaf(Lock):
        async def update(self, record: LeaderRecord) -> None:
            await super().update(record)
            if self.store.down:
                raise ConnectionError("the answer was lost")

        async def _request(self, verb: str) -> None:
            self.store.requests.append(verb)
            await asyncio.sleep(0.01)

    store = Store()
    candidate = Candidate(store, "first")
    candidate.elector._lock = Deaf(store)
    async with running(candidate):
        await candidate.started.wait()
        until = candidate.elector.term.may_write_until
        store.down = True
        await asyncio.sleep(6)
        assert store.requests.count("update") > 1
        assert candidate.elector.is_leader
        assert candidate.elector.term.may_write_until == until


async def test_a_leader_that_stood_still_tries_once_more() -> None:
    store = Store()
    candidate = Candidate(store, "first")
    skipped = 0.0
    candidate.elector._clock = lambda: now() + skipped
    async with running(candidate):
        await candidate.started.wait()
        skipped = 60
        assert candidate.elector.term.may_write_until < now() + skipped
        await asyncio.sleep(3)
        assert candidate.elector.term.may_write_until > now() + skipped
        assert not candidate.stopped.is_set()


async def test_credentials_of_another_loop_are_had_while_it_is_busy() -> None:
    busy = asyncio.Event()

    async def token() -> str:
        if busy.is_set():
            await asyncio.sleep(3600)
        return "t"

    clock = iter(range(0, 10_000, 100))
    auth = shared(CallbackAuth(token, clock=lambda: next(clock)), asyncio.get_running_loop())
    assert await auth.headers() == {"Authorization": "Bearer t"}
    busy.set()
    since = now()
    assert await auth.headers() == {"Authorization": "Bearer t"}
    assert now() - since == pytest.approx(PATIENCE, abs=0.01)


async def test_credentials_that_we_know_are_made_anew(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    loop = asyncio.get_running_loop()
    static = StaticAuth(token="t")
    assert shared(static, loop) is static
    path = tmp_path_factory.mktemp("auth") / "token"
    path.write_text("t")
    file = FileAuth(path)
    copy = shared(file, loop)
    assert copy is not file
    assert await copy.headers() == {"Authorization": "Bearer t"}
