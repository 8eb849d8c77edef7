"""Leader election on virtual time: requirements LE-*."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import structlog

from ctrlruntime.client.errors import AlreadyExists, Conflict
from ctrlruntime.manager.election import ElectionOptions, LeaderElector, default_identity
from ctrlruntime.manager.lease import LeaderRecord

pytestmark = pytest.mark.looptime


class Store:
    """The record all candidates share, with versions, kept in memory."""

    def __init__(self) -> None:
        self.record: LeaderRecord | None = None
        self.version = 0
        self.requests: list[str] = []
        self.down = False
        self.conflicts = 0

    def put(self, record: LeaderRecord) -> None:
        self.record = record
        self.version += 1


class Lock:
    """One candidate's view of the store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.seen = 0
        self.sent: list[float] = []
        """When each write was sent."""
        self.late = 0.0
        """Seconds until a write is answered."""
        self.hangs: set[str] = set()
        """Verbs of which the next request has no answer."""

    def __str__(self) -> str:
        return "lock in memory"

    async def _request(self, verb: str) -> None:
        self.store.requests.append(verb)
        if verb in self.hangs:
            self.hangs.discard(verb)
            await asyncio.sleep(86_400)
        if verb != "get":
            self.sent.append(now())
            await asyncio.sleep(self.late)
        await asyncio.sleep(0.01)
        if self.store.down:
            raise ConnectionError("no answer")

    async def get(self) -> LeaderRecord | None:
        await self._request("get")
        self.seen = self.store.version
        return self.store.record

    async def create(self, record: LeaderRecord) -> None:
        await self._request("create")
        if self.store.record is not None:
            raise AlreadyExists("exists")
        self.store.put(record)
        self.seen = self.store.version

    async def update(self, record: LeaderRecord) -> None:
        await self._request("update")
        if self.store.conflicts:
            self.store.conflicts -= 1
            raise Conflict("injected")
        if self.seen != self.store.version:
            raise Conflict("stale")
        self.store.put(record)
        self.seen = self.store.version


class Candidate:
    def __init__(self, store: Store, name: str, options: ElectionOptions | None = None) -> None:
        self.name = name
        self.started = asyncio.Event()
        self.stopped = asyncio.Event()
        self.leaders: list[str] = []
        self.gauge: list[bool] = []
        self.slow = 0
        self.lock = Lock(store)
        self.elector = LeaderElector(
            self.lock,
            name,
            options if options is not None else ElectionOptions(),
            self,
            structlog.get_logger(),
            metrics=self,
            now=lambda: datetime(1999, 1, 1, tzinfo=UTC) + timedelta(seconds=now()),
        )

    def started_leading(self) -> None:
        self.started.set()

    def stopped_leading(self) -> None:
        self.stopped.set()

    def new_leader(self, identity: str) -> None:
        self.leaders.append(identity)

    def leading(self, leading: bool) -> None:
        self.gauge.append(leading)

    def slow_path(self) -> None:
        self.slow += 1


@asynccontextmanager
async def running(*candidates: Candidate) -> AsyncIterator[list[asyncio.Task[None]]]:
    tasks = [asyncio.create_task(candidate.elector.run()) for candidate in candidates]
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def now() -> float:
    return asyncio.get_running_loop().time()


@pytest.fixture
async def store() -> Store:
    return Store()


@pytest.mark.criterion("LE-01")
async def test_the_first_creates_the_lease_and_the_second_waits(store: Store) -> None:
    first, second = Candidate(store, "first"), Candidate(store, "second")
    async with running(first):
        await first.started.wait()
        assert store.record is not None
        assert (store.record.holder, store.record.lease_duration) == ("first", 15)
        async with running(second):
            await asyncio.sleep(300)
            assert not second.started.is_set()


@pytest.mark.criterion("LE-02")
@pytest.mark.criterion("LE-07")
async def test_takes_over_a_lease_duration_after_the_last_change_it_saw(store: Store) -> None:
    far_future = datetime(2999, 1, 1, tzinfo=UTC)
    store.put(LeaderRecord(holder="dead", lease_duration=15, renew_time=far_future, transitions=3))
    candidate = Candidate(store, "heir")
    began = now()
    async with running(candidate):
        await candidate.started.wait()
        assert 15 <= now() - began <= 15 + 4.5
        assert store.record is not None
        assert store.record.transitions == 4


@pytest.mark.criterion("LE-03")
async def test_no_take_over_while_renewals_are_seen_however_wrong_their_times(store: Store) -> None:
    async def renew_with_a_broken_calendar() -> None:
        for turn in range(100):
            stamp = datetime(1970, 1, 1 + turn % 28, tzinfo=UTC)
            store.put(LeaderRecord(holder="live", lease_duration=15, renew_time=stamp))
            await asyncio.sleep(5)

    candidate = Candidate(store, "heir")
    async with running(candidate):
        await renew_with_a_broken_calendar()
        assert not candidate.started.is_set()


@pytest.mark.criterion("LE-04")
@pytest.mark.criterion("LV-8")
async def test_a_leader_that_cannot_renew_stops_within_the_deadline(store: Store) -> None:
    candidate = Candidate(store, "first")
    async with running(candidate) as (task,):
        await candidate.started.wait()
        await asyncio.sleep(60)
        store.down = True
        failing_since = now()
        async with asyncio.timeout(600):  # of a clock of its own
            await candidate.stopped.wait()
        assert 10 <= now() - failing_since <= 12.1
        await task  # it returns: nobody cancelled it
    assert candidate.gauge == [False, True, False]


@pytest.mark.criterion("LE-04")
async def test_a_leader_that_sees_another_stops_at_once(store: Store) -> None:
    candidate = Candidate(store, "first")
    async with running(candidate):
        await candidate.started.wait()
        store.put(LeaderRecord(holder="thief", lease_duration=15))
        since = now()
        await candidate.stopped.wait()
        assert now() - since < 3
        assert candidate.leaders == ["first", "thief"]


@pytest.mark.criterion("LE-05")
async def test_release_hands_over_at_the_next_poll(store: Store) -> None:
    first, second = Candidate(store, "first"), Candidate(store, "second")
    async with running(second) as (leading,):
        await second.started.wait()
        async with running(first):
            await asyncio.sleep(30)
            leading.cancel()
            await asyncio.gather(leading, return_exceptions=True)
            assert store.record is not None
            assert (store.record.holder, store.record.lease_duration) == ("", 1)
            released = now()
            await first.started.wait()
            assert now() - released <= 4.5


@pytest.mark.criterion("LE-05")
async def test_without_the_option_the_lease_is_left_to_expire(store: Store) -> None:
    candidate = Candidate(store, "first", ElectionOptions(release_on_exit=False))
    async with running(candidate):
        await candidate.started.wait()
    assert store.record is not None
    assert store.record.holder == "first"


@pytest.mark.criterion("LE-06")
async def test_renewals_only_update_and_a_conflict_reads_again(store: Store) -> None:
    candidate = Candidate(store, "first")
    async with running(candidate):
        await candidate.started.wait()
        store.requests.clear()
        await asyncio.sleep(20)
        assert set(store.requests) == {"update"}
        store.requests.clear()
        store.conflicts = 1
        await asyncio.sleep(3)
        assert store.requests[:3] == ["update", "get", "update"]
        assert candidate.slow == 1
        assert not candidate.stopped.is_set()


@pytest.mark.criterion("LE-07")
async def test_renewing_keeps_acquire_time_and_transitions(store: Store) -> None:
    candidate = Candidate(store, "first")
    async with running(candidate):
        await candidate.started.wait()
        acquired = store.record
        await asyncio.sleep(60)
        assert acquired is not None
        assert store.record is not None
        assert store.record.acquire_time == acquired.acquire_time
        assert store.record.transitions == acquired.transitions == 0


@pytest.mark.criterion("LE-08")
async def test_release_tries_again_on_conflict(store: Store) -> None:
    candidate = Candidate(store, "first")
    async with running(candidate):
        await candidate.started.wait()
        store.conflicts = 2
    assert store.record is not None
    assert store.record.holder == ""


@pytest.mark.criterion("LE-08")
async def test_release_never_clears_the_lease_of_another(store: Store) -> None:
    candidate = Candidate(store, "first")
    async with running(candidate):
        await candidate.started.wait()
        assert store.record is not None
        store.put(replace(store.record, holder="other"))
    assert store.record.holder == "other"


@pytest.mark.criterion("LE-09")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lease_duration": 10.0}, "must be greater than renew_deadline"),
        ({"renew_deadline": 2.2}, "must be greater than 1.2 x retry_period"),
        ({"retry_period": 0.0}, "retry_period must be greater than 0"),
        ({"lease_duration": -1.0}, "lease_duration must be greater than 0"),
        (
            {"lease_duration": 0.9, "renew_deadline": 0.5, "retry_period": 0.1},
            "at least one second",
        ),
    ],
)
async def test_impossible_times_are_refused(options: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ElectionOptions(**options)  # type: ignore[arg-type]


@pytest.mark.criterion("LE-10")
async def test_stopped_leading_is_called_even_if_it_never_led(store: Store) -> None:
    store.put(LeaderRecord(holder="other", lease_duration=3600))
    candidate = Candidate(store, "first")
    async with running(candidate):
        await asyncio.sleep(10)
        store.put(LeaderRecord(holder="third", lease_duration=3600))
        await asyncio.sleep(30)
    assert candidate.stopped.is_set()
    assert not candidate.started.is_set()
    assert candidate.leaders == ["other", "third"]


@pytest.mark.criterion("LE-11")
async def test_the_health_check_fails_when_renewal_is_overdue(store: Store) -> None:
    candidate = Candidate(store, "first")
    async with running(candidate) as (task,):
        await candidate.started.wait()
        candidate.elector.check()
        task.cancel()
        candidate.elector.keep()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(34)
        candidate.elector.check()
        await asyncio.sleep(5)
        with pytest.raises(RuntimeError, match="was not renewed"):
            candidate.elector.check()


@pytest.mark.criterion("LE-12")
async def test_the_gauge_follows_the_state(store: Store) -> None:
    candidate = Candidate(store, "first")
    async with running(candidate):
        await asyncio.sleep(0)
        assert candidate.gauge == [False]
        await candidate.started.wait()
        assert candidate.gauge == [False, True]
    assert candidate.gauge == [False, True, False]


async def test_identities_are_unique_and_name_the_host() -> None:
    import socket

    first, second = default_identity(), default_identity()
    assert first != second
    assert first.startswith(f"{socket.gethostname()}_")


async def test_a_request_without_an_answer_does_not_outlast_half_the_deadline(
    store: Store,
) -> None:
    candidate = Candidate(store, "first")

    class Hanging(Lock):
        async def update(self, record: LeaderRecord) -> None:
            if store.down:
                await asyncio.sleep(3600)
            await super().update(record)

    candidate.elector._lock = Hanging(store)
    async with running(candidate):
        await candidate.started.wait()
        store.down = True
        since = now()
        await candidate.stopped.wait()
        assert now() - since <= 12.1


@pytest.mark.criterion("LV-8")
async def test_the_hold_of_the_lease_counts_from_when_the_write_was_sent(store: Store) -> None:
    candidate = Candidate(store, "first")
    candidate.lock.late = 3.0
    async with running(candidate):
        await candidate.started.wait()
        for _ in range(5):
            (sent,) = candidate.lock.sent
            assert candidate.elector.term == pytest.approx((sent + 12, sent + 15))
            candidate.lock.sent.clear()
            term = candidate.elector.term
            while candidate.elector.term == term:  # noqa: ASYNC110 - a term has no event
                await asyncio.sleep(0.1)


@pytest.mark.criterion("LV-8")
async def test_the_hold_of_the_lease_is_overdue_counting_from_when_the_write_was_sent(
    store: Store,
) -> None:
    candidate = Candidate(store, "first")
    candidate.lock.late = 3.0
    async with running(candidate) as (task,):
        await candidate.started.wait()
        (sent,) = candidate.lock.sent
        task.cancel()
        candidate.elector.keep()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(sent + 15 - now() - 0.5)
        candidate.elector.check(timeout=0.0)
        await asyncio.sleep(1)
        with pytest.raises(RuntimeError, match="was not renewed"):
            candidate.elector.check(timeout=0.0)


@pytest.mark.criterion("LV-8")
async def test_a_leader_never_writes_for_longer_than_its_lease_lasts(store: Store) -> None:
    options = ElectionOptions(lease_duration=15, renew_deadline=14, retry_period=5)
    candidate = Candidate(store, "first", options)
    async with running(candidate):
        await candidate.started.wait()
        (sent,) = candidate.lock.sent
        assert candidate.elector.term == pytest.approx((sent + 15, sent + 15))


@pytest.mark.criterion("LV-8")
async def test_the_request_timeout_of_the_election_lets_a_leader_try_again_in_time(
    store: Store,
) -> None:
    candidate = Candidate(store, "first")
    async with running(candidate):
        await candidate.started.wait()
        for _ in range(5):
            candidate.lock.hangs.add("update")
            await asyncio.sleep(30)
            assert not candidate.lock.hangs
            assert not candidate.stopped.is_set()
            assert candidate.elector.term.may_write_until > now()


@pytest.mark.criterion("LV-8")
async def test_the_request_timeout_of_the_election_lets_a_candidate_ask_again(
    store: Store,
) -> None:
    candidate = Candidate(store, "first")
    candidate.lock.hangs |= {"get", "create"}
    async with running(candidate):
        async with asyncio.timeout(30):  # of a clock of its own
            await candidate.started.wait()
        assert store.requests[:4] == ["get", "get", "create", "get"]
