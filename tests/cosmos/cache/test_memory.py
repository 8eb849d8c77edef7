"""What is remembered, told and waited for: the parts of the cache that do no I/O."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from ctrlruntime.cache.events import CreateEvent, UpdateEvent
from internal.cosmos.cache.cosmos_cache import News
from internal.cosmos.cache.memory import Memory, Record
from internal.cosmos.cache.observation import Observation
from internal.cosmos.cache.pace import JITTER, PER_SECOND, SLOWEST, Pace
from internal.cosmos.cache.pods import is_settled, matters, target_of
from internal.cosmos.cache.pool import Pool
from tests.cosmos.cache.nodes import pod

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


def answer(height: int) -> Record[int]:
    return Record(NOW, height, "")


class TestMemory:
    def test_an_answer_replaces_the_last(self) -> None:
        memory: Memory[int] = Memory()
        memory.add("a")
        assert memory.get("a") == Record()
        assert memory.settle("a", memory.begin(), answer(1))
        assert memory.settle("a", memory.begin(), answer(2))
        assert memory.get("a") == answer(2)

    def test_what_is_invalidated_is_forgotten(self) -> None:
        memory: Memory[int] = Memory()
        memory.add("a")
        memory.settle("a", memory.begin(), answer(1))
        memory.invalidate("a")
        assert memory.get("a") == Record()

    def test_an_answer_to_a_question_of_before_is_refused(self) -> None:
        memory: Memory[int] = Memory()
        memory.add("a")
        ticket = memory.begin()
        memory.invalidate("a")
        assert not memory.settle("a", ticket, answer(1))
        assert memory.get("a") == Record()
        assert memory.settle("a", memory.begin(), answer(2))

    def test_answers_that_overtake_each_other_count_by_their_questions(self) -> None:
        memory: Memory[int] = Memory()
        memory.add("a")
        first, second = memory.begin(), memory.begin()
        assert memory.settle("a", second, answer(2))
        assert not memory.settle("a", first, answer(1))
        assert memory.get("a") == answer(2)

    def test_others_are_left_alone(self) -> None:
        memory: Memory[int] = Memory()
        for uid in "ab":
            memory.add(uid)
        ticket = memory.begin()
        memory.invalidate("a")
        assert memory.settle("b", ticket, answer(1))

    def test_nothing_is_kept_of_what_is_gone(self) -> None:
        memory: Memory[int] = Memory()
        memory.add("a")
        ticket = memory.begin()
        memory.drop("a")
        memory.drop("a")
        assert not memory.settle("a", ticket, answer(1))
        memory.add("a")
        assert not memory.settle("a", ticket, answer(1))
        assert len(memory) == 1


def said(pod: str, height: int | None, *, behind: bool = False, error: str = "") -> Observation:
    return Observation(pod, f"uid-{pod}", 0, NOW, height, behind, error)


class TestNews:
    def test_who_comes_into_sync_or_falls_out_is_reported_at_once(self) -> None:
        news = News()
        assert not news.is_news("hub", [Observation("a", "uid-a", 0, error="not asked")], 0)
        for seconds, observation in enumerate(
            [
                said("a", 1, behind=True),
                said("a", 2),
                said("a", 3, behind=True),
                said("a", None, error="gone"),
                said("a", 3),
            ]
        ):
            assert news.is_news("hub", [observation], seconds)
            assert not news.is_news("hub", [observation], seconds)

    def test_heights_alone_are_reported_once_a_minute(self) -> None:
        news = News()
        assert news.is_news("hub", [said("a", 1)], 0)
        told = [
            second for second in range(1, 181) if news.is_news("hub", [said("a", second)], second)
        ]
        assert told == [60, 120, 180]

    def test_a_height_that_is_waited_for_is_reported_at_once(self) -> None:
        news = News()
        assert news.is_news("hub", [said("a", 97)], 0, [100])
        assert not news.is_news("hub", [said("a", 98)], 1, [100])
        assert news.is_news("hub", [said("a", 99)], 2, [100]), "it makes 100 next"
        assert not news.is_news("hub", [said("a", 100)], 3, [100])

    def test_the_last_height_of_a_chain_that_halts_is_reported(self) -> None:
        news = News()
        assert news.is_news("hub", [said("a", 1)], 0)
        told = [second for second in range(1, 300) if news.is_news("hub", [said("a", 7)], second)]
        assert told == [60]

    def test_sets_do_not_know_of_each_other_and_can_be_forgotten(self) -> None:
        news = News()
        assert news.is_news("hub", [said("a", 1)], 0)
        assert news.is_news("other", [said("a", 1)], 0)
        news.forget("hub")
        assert news.is_news("hub", [said("a", 1)], 1)

    def test_a_node_that_goes_is_news(self) -> None:
        news = News()
        assert news.is_news("hub", [said("a", 1), said("b", 1)], 0)
        assert news.is_news("hub", [said("a", 1)], 1)


class TestPace:
    def test_intervals_differ_and_stay_within_their_bounds(self) -> None:
        pace = Pace(interval=5.0, draw=random.Random(1).uniform)
        drawn = {pace.pause(10) for _ in range(1000)}
        assert len(drawn) > 900
        assert min(drawn) >= 5.0 * (1 - JITTER)
        assert max(drawn) <= 5.0 * (1 + JITTER)

    @pytest.mark.parametrize(
        ("nodes", "overdue", "seconds"),
        [(1, 0, 5), (1, 1, 10), (1, 2, 20), (1, 3, SLOWEST), (1, 10_000, SLOWEST),
         (1250, 0, 5), (PER_SECOND * 10, 0, 10), (PER_SECOND * 60, 0, 60), (PER_SECOND * 60, 3, 60)],
    )  # fmt: skip
    def test_who_does_not_answer_is_asked_less_and_many_wait_longer(
        self, nodes: int, overdue: int, seconds: float
    ) -> None:
        pace = Pace(interval=5.0, draw=lambda _low, _high: 1.0)
        assert pace.pause(nodes, overdue) == seconds


class TestPool:
    async def test_never_more_are_in_than_fit(self) -> None:
        pool, most = Pool(3), 0

        async def work(*, suspect: bool) -> None:
            nonlocal most
            async with pool.turn(suspect=suspect):
                most = max(most, pool.under_way)
                await asyncio.sleep(0)

        await asyncio.gather(*(work(suspect=bool(number % 2)) for number in range(50)))
        assert (most, pool.under_way, pool.waiting) == (3, 0, 0)

    async def test_suspects_leave_half_of_it_to_the_others(self) -> None:
        pool, release = Pool(4), asyncio.Event()

        async def hang() -> None:
            async with pool.turn(suspect=True):
                await release.wait()

        hanging = [asyncio.create_task(hang()) for _ in range(10)]
        await asyncio.sleep(0)
        async with asyncio.timeout(60):
            async with pool.turn(), pool.turn():
                assert pool.under_way == 4
        release.set()
        await asyncio.gather(*hanging)
        assert pool.under_way == 0

    @pytest.mark.parametrize("suspect", [True, False])
    async def test_who_gives_up_waiting_leaves_nothing_behind(self, suspect: bool) -> None:
        pool = Pool(1)
        async with pool.turn():
            waiting = asyncio.create_task(_pass(pool, suspect=suspect))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        async with asyncio.timeout(60):
            await _pass(pool, suspect=True)
            await _pass(pool, suspect=False)
        assert (pool.under_way, pool.waiting) == (0, 0)

    def test_no_member_fits_into_none(self) -> None:
        with pytest.raises(ValueError, match="at least 1"):
            Pool(0)


async def _pass(pool: Pool, *, suspect: bool) -> None:
    async with pool.turn(suspect=suspect):
        pass


class TestPods:
    @pytest.mark.parametrize(
        "fields",
        [{"address": ""}, {"deleted": True}, {"phase": "Failed"}, {"phase": "Succeeded"}],
        ids=["no address", "deleted", "failed", "succeeded"],
    )
    def test_who_is_not_asked(self, fields: dict[str, Any]) -> None:
        assert target_of(pod("hub-0", 0, **{"uid": "u", "address": "127.0.0.1"} | fields)) is None

    @pytest.mark.parametrize(("seconds", "settled"), [(4, False), (5, True), (-1, False)])
    def test_a_pod_settles_after_a_while(self, seconds: int, settled: bool) -> None:
        entry = pod("hub-0", 0, uid="u", ready=NOW - timedelta(seconds=seconds))
        assert is_settled(entry, NOW) is settled

    def test_a_pod_that_is_not_ready_is_not_settled(self) -> None:
        assert not is_settled(pod("hub-0", 0, uid="u", ready=None), NOW)

    def test_only_what_changes_who_is_asked_matters(self) -> None:
        old = pod("hub-0", 0, uid="u", address="127.0.0.1")
        ready = pod("hub-0", 0, uid="u", address="127.0.0.1", ready=None)
        assert matters(CreateEvent(old))
        assert not matters(UpdateEvent(old, ready))
        for new in (
            pod("hub-0", 0, uid="v", address="127.0.0.1"),
            pod("hub-0", 0, uid="u", address="127.0.0.2"),
            pod("hub-0", 0, uid="u", address="127.0.0.1", deleted=True),
            pod("hub-0", 0, uid="u", address="127.0.0.1", phase="Failed"),
            pod("hub-0", 0, uid="u", address="127.0.0.1", port=1),
        ):
            assert matters(UpdateEvent(old, new))
