"""The cache: who is asked, and what everybody else is answered."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from types import CoroutineType
from typing import Any

import pytest

from ctrlruntime.clock import Sources, replaced
from ctrlruntime.queue import Request
from internal.cosmos.cache.cosmos_cache import CacheOptions
from internal.cosmos.cache.memory import NOT_ASKED
from internal.cosmos.cache.pods import TERMINATING
from tests.cosmos.cache.nodes import NAMESPACE, QUICK, Nodes
from tests.support.waiting import eventually

HUB = Request("hub", namespace=NAMESPACE)
SELDOM = CacheOptions(interval=3600.0, deadline=30.0)


@pytest.fixture
async def nodes() -> AsyncIterator[Nodes]:
    async with Nodes.start() as made:
        yield made


@pytest.fixture
async def seldom() -> AsyncIterator[Nodes]:
    """A cache that asks each node once."""
    async with Nodes.start(SELDOM) as made:
        yield made


class TestCollect:
    @pytest.mark.criterion("COSMOS-A4-1")
    async def test_it_has_what_every_node_last_said_by_ordinal(self, nodes: Nodes) -> None:
        nodes.add(10, 2, 0)
        nodes.comet.node("hub-2").catching_up = True
        nodes.comet.node("hub-10").unreachable = True
        nodes.follow()
        await eventually(lambda: all(each.at for each in nodes.collect()))
        first, second, third = nodes.collect()
        assert [each.pod for each in (first, second, third)] == ["hub-0", "hub-2", "hub-10"]
        assert (first.height, first.is_in_sync) == (100, True)
        assert (second.height, second.is_reachable, second.is_in_sync) == (100, True, False)
        assert (third.height, third.is_reachable) == (None, False)
        assert third.error == "The node cannot be reached: the connection was closed"

    @pytest.mark.criterion("COSMOS-A4-1")
    async def test_heights_advance(self, nodes: Nodes) -> None:
        nodes.add(0, 1)
        nodes.follow()
        await eventually(lambda: nodes.heights() == [100, 100])
        nodes.comet.advance(5)
        nodes.comet.node("hub-1").behind = 3
        await eventually(lambda: nodes.heights() == [105, 102])

    async def test_a_pod_not_polled_reports_it(self, seldom: Nodes) -> None:
        seldom.comet.node("hub-0").hold()
        seldom.add(0)
        seldom.add(1, address="")
        seldom.follow()
        await seldom.comet.until_asked("hub-0", more=0)
        asked, unreachable = seldom.collect()
        assert (asked.at, asked.height, asked.error) == (None, None, NOT_ASKED)
        assert (unreachable.at, unreachable.height) == (None, None)
        assert "no address" in unreachable.error

    @pytest.mark.criterion("COSMOS-A4-3")
    async def test_pods_come_from_the_informer_and_are_distinguished_by_uid(
        self, seldom: Nodes
    ) -> None:
        seldom.add(0, 1)
        seldom.follow()
        await eventually(lambda: seldom.heights() == [100, 100])
        seldom.remove("hub-1")
        assert seldom.heights() == [100]
        seldom.add(0)  # the same name, another Pod
        assert seldom.heights() == [None]
        seldom.follow()
        await eventually(lambda: seldom.heights() == [100])

    async def test_pods_beside_the_nodes_do_not_count(self, seldom: Nodes) -> None:
        seldom.add(0)
        seldom.add(1, beside="hub-0")
        seldom.follow()
        await eventually(lambda: seldom.heights() == [100])

    async def test_a_pod_on_its_way_out_counts_for_nothing(self, nodes: Nodes) -> None:
        nodes.add(0, 1)
        nodes.follow()
        await eventually(lambda: nodes.heights() == [100, 100])
        nodes.mark_deleted("hub-1")
        found = nodes.of("hub-1")
        assert (found.height, found.is_reachable, found.error) == (None, False, TERMINATING)
        nodes.follow()
        await nodes.comet.until_asked("hub-0", more=3)
        asked = nodes.comet.asked["default", "hub-1"]
        await nodes.comet.until_asked("hub-0", more=3)
        assert nodes.comet.asked["default", "hub-1"] == asked

    @pytest.mark.criterion("D5-2", "COSMOS-A4-6")
    async def test_everybody_is_given_a_list_of_his_own_that_stays_as_it_is(
        self, seldom: Nodes
    ) -> None:
        seldom.add(0, 1, 2)
        seldom.follow()
        await eventually(lambda: seldom.heights() == [100, 100, 100])
        first, second = seldom.collect(), seldom.collect()
        kept = list(first)
        second.clear()
        seldom.remove("hub-0")
        seldom.cache.invalidate(NAMESPACE, "hub", ["hub-1"])
        assert len(seldom.collect()) == 2
        assert first == kept
        assert [each.height for each in first] == [100, 100, 100]

    @pytest.mark.criterion("D5-2", "COSMOS-A4-6")
    async def test_readers_that_wait_between_reads_see_whole_lists_while_pods_come_and_go(
        self, nodes: Nodes
    ) -> None:
        nodes.add(0, 1, 2, 3)
        nodes.follow()
        stop = asyncio.Event()

        async def read() -> int:
            count = 0
            while not stop.is_set():
                found = nodes.collect()
                ordinals = [each.ordinal for each in found]
                await asyncio.sleep(0)
                assert ordinals == [each.ordinal for each in found] == sorted(set(ordinals))
                assert {0, 2} <= set(ordinals)
                count += 1
            return count

        readers = [asyncio.create_task(read()) for _ in range(2)]
        for _ in range(10):
            nodes.remove("hub-1")
            nodes.follow()
            nodes.add(3)
            nodes.cache.invalidate(NAMESPACE, "hub", ["hub-0", "hub-2"])
            await nodes.comet.until_asked("hub-2")
            nodes.add(1)
            nodes.follow()
            await nodes.comet.until_asked("hub-1")
        stop.set()
        assert all(await asyncio.gather(*readers))

    @pytest.mark.criterion("COSMOS-A4-2")
    async def test_a_read_polls_no_node(self, seldom: Nodes) -> None:
        seldom.add(0)
        seldom.follow()
        await eventually(lambda: seldom.heights() == [100])
        asked = seldom.comet.questions
        for _ in range(100):
            seldom.collect()
            seldom.cache.synced(NAMESPACE, "hub")
            seldom.cache.disks(NAMESPACE, "hub")
        await asyncio.sleep(0)
        assert seldom.comet.questions == asked == 1


class TestSynced:
    @pytest.mark.criterion("COSMOS-A4-4")
    async def test_in_sync_and_ready_for_the_minimum_time(self) -> None:
        now = datetime.now(UTC)
        async with Nodes.start(SELDOM, now=lambda: now) as nodes:
            nodes.add(0, 2)
            nodes.add(1, ready=now - timedelta(seconds=4))
            nodes.add(3, ready=None)
            nodes.comet.node("hub-2").catching_up = True
            nodes.follow()
            await eventually(lambda: all(each.at for each in nodes.collect()))
            assert [each.pod for each in nodes.cache.synced(NAMESPACE, "hub")] == ["hub-0"]
            now += timedelta(seconds=2)
            assert [each.pod for each in nodes.cache.synced(NAMESPACE, "hub")] == ["hub-0", "hub-1"]
            nodes.mark_deleted("hub-0")
            assert [each.pod for each in nodes.cache.synced(NAMESPACE, "hub")] == ["hub-1"]


class TestClock:
    @pytest.mark.criterion("SIM-F8")
    @pytest.mark.parametrize("hours", [2, -2])
    async def test_what_was_noted_by_a_clock_that_is_set_moves_with_it(self, hours: int) -> None:
        """A node answered, and stopped, while the clock was wrong: else it was healed in two hours, or never."""
        now = datetime.now(UTC) + timedelta(hours=hours)
        async with Nodes.start(QUICK, now=lambda: now) as nodes:
            nodes.add(0)
            nodes.follow()
            await eventually(lambda: nodes.heights() == [100])
            nodes.comet.node("hub-0").unreachable = True
            await eventually(lambda: nodes.of("hub-0").silent_since is not None)
            now -= timedelta(hours=hours)
            await eventually(lambda: nodes.of("hub-0").at == now)
            seen = nodes.of("hub-0")
            assert seen.answered_at is not None
            assert seen.silent_since is not None
            assert abs(now - seen.answered_at) < timedelta(minutes=30)
            assert abs(now - seen.silent_since) < timedelta(minutes=30)

    @pytest.mark.criterion("SIM-F8")
    async def test_a_slow_answer_is_no_clock_that_was_set(self) -> None:
        """With a timeout above a minute an answer may take as long."""
        began, passed = datetime.now(UTC), 0.0
        real = Sources().monotonic
        with replaced(Sources(monotonic=lambda: real() + passed)):
            async with Nodes.start(QUICK, now=lambda: began + timedelta(seconds=passed)) as nodes:
                nodes.add(0)
                nodes.follow()
                await eventually(lambda: nodes.heights() == [100])
                nodes.comet.node("hub-0").hold()
                await nodes.comet.until_asked("hub-0")
                passed = 90.0
                nodes.comet.node("hub-0").release()
                await eventually(lambda: nodes.of("hub-0").at == began + timedelta(seconds=90))
                assert nodes.of("hub-0").in_sync_since == began


class TestInvalidate:
    @pytest.mark.criterion("D5-1", "COSMOS-A4-5")
    async def test_it_changes_what_is_collected(self, seldom: Nodes) -> None:
        seldom.add(0, 1)
        seldom.follow()
        await eventually(lambda: seldom.heights() == [100, 100])
        seldom.cache.invalidate(NAMESPACE, "hub", ["hub-1", "hub-7"])
        assert seldom.heights() == [100, None]
        assert (seldom.of("hub-1").at, seldom.of("hub-1").is_in_sync) == (None, False)
        assert [each.pod for each in seldom.cache.synced(NAMESPACE, "hub")] == ["hub-0"]

    @pytest.mark.criterion("D5-1", "COSMOS-A4-5")
    async def test_what_was_being_answered_meanwhile_is_discarded(self, seldom: Nodes) -> None:
        node = seldom.comet.node("hub-0")
        node.hold()
        seldom.add(0)
        seldom.follow()
        await eventually(lambda: seldom.comet.asked["default", "hub-0"] == 1)
        seldom.cache.invalidate(NAMESPACE, "hub", ["hub-0"])
        assert seldom.told == []
        node.height = 7
        node.release()
        # The first answer is discarded, and the node asked again at once: the second one counts.
        await eventually(lambda: seldom.heights() == [7])
        assert seldom.comet.asked["default", "hub-0"] == 2
        assert seldom.sample("cosmos_cache_discarded_total", question="status") == 1

    async def test_it_is_asked_again_in_time(self, nodes: Nodes) -> None:
        nodes.add(0)
        nodes.follow()
        await eventually(lambda: nodes.heights() == [100])
        nodes.cache.invalidate(NAMESPACE, "hub", ["hub-0"])
        await eventually(lambda: nodes.heights() == [100])


class TestSubscribe:
    async def test_sets_are_notified_when_nodes_come_or_go(self, nodes: Nodes) -> None:
        nodes.add(0)
        nodes.follow()
        await eventually(lambda: nodes.told == [HUB])
        nodes.comet.node("hub-0").catching_up = True
        await eventually(lambda: nodes.told == [HUB] * 2)
        nodes.comet.node("hub-0").unreachable = True
        await eventually(lambda: nodes.told == [HUB] * 3)
        nodes.comet.advance(3)
        await nodes.comet.until_asked("hub-0", more=5)
        assert nodes.told == [HUB] * 3

    async def test_heights_alone_wake_no_controller_within_the_minute(self, nodes: Nodes) -> None:
        nodes.add(0)
        nodes.follow()
        await eventually(lambda: nodes.told == [HUB])
        for _ in range(5):
            nodes.comet.advance()
            height = nodes.comet.height
            await eventually(nodes.heights, [height].__eq__)
        assert nodes.told == [HUB]

    async def test_a_pod_that_is_deleted_is_news_without_any_answer(self, seldom: Nodes) -> None:
        seldom.add(0)
        seldom.follow()
        await eventually(lambda: seldom.told == [HUB])
        seldom.mark_deleted("hub-0")
        seldom.follow()
        assert seldom.told == [HUB] * 2


class TestDisks:
    async def test_usage_is_asked_about_where_it_is_requested(self, nodes: Nodes) -> None:
        nodes.add(0)
        nodes.add(0, name="other")
        nodes.comet.node("hub-0").disk_free = 0
        nodes.follow(folder="/home/operator/cosmos")
        nodes.follow("other")
        await eventually(lambda: nodes.disks_told == [HUB])
        (disk,) = nodes.cache.disks(NAMESPACE, "hub")
        assert disk.usage is not None
        assert (disk.usage.percent, disk.error) == (100, "")
        assert nodes.comet.folders == {("default", "hub-0"): "/home/operator/cosmos"}
        nodes.comet.node("hub-0").disk_error = "it is not mounted"
        await eventually(lambda: nodes.disks_told == [HUB] * 2)
        (disk,) = nodes.cache.disks(NAMESPACE, "hub")
        assert disk.usage is None
        assert disk.error.endswith("answered with an error, a string of 17 characters.")
        (other,) = nodes.cache.disks(NAMESPACE, "other")
        assert other.at is None

    async def test_a_disk_that_does_not_answer_holds_up_no_status(self, nodes: Nodes) -> None:
        nodes.add(0)
        nodes.follow(folder="/x")
        await eventually(lambda: len(nodes.disks_told) == 1)
        nodes.follow()
        await eventually(lambda: nodes.cache.disks(NAMESPACE, "hub")[0].at is None)

    async def test_disks_of_pods_on_their_way_out_are_not_reported(self, nodes: Nodes) -> None:
        nodes.add(0, 1)
        nodes.mark_deleted("hub-1")
        assert [each.pod for each in nodes.cache.disks(NAMESPACE, "hub")] == ["hub-0"]


class TestLoad:
    @pytest.mark.criterion("COSMOS-A4-7")
    async def test_never_more_questions_are_under_way_than_allowed(self) -> None:
        options = CacheOptions(interval=0.001, deadline=30.0, at_once=4, disk_interval=0.001)
        async with Nodes.start(options) as nodes:
            for number in range(5):
                name = f"set-{number}"
                nodes.add(*range(4), name=name)
                nodes.follow(name, folder="/x")
                for ordinal in range(4):
                    nodes.comet.node(f"{name}-{ordinal}").slow = 0.002
            await eventually(lambda: nodes.comet.questions >= 200)
            assert nodes.comet.most_under_way == 4
            await eventually(lambda: nodes.sample("cosmos_cache_waiting") > 0)

    @pytest.mark.criterion("COSMOS-A4-7")
    async def test_nodes_that_do_not_answer_block_no_other(self) -> None:
        options = CacheOptions(interval=0.01, deadline=0.5, at_once=2)
        async with Nodes.start(options) as nodes:
            nodes.add(0, 1, 2, 3, 4, 5)
            for ordinal in range(1, 6):
                nodes.comet.node(f"hub-{ordinal}").hold()
            nodes.follow()
            await eventually(
                lambda: (
                    nodes.sample("cosmos_cache_errors_total", question="status", reason="Deadline")
                    >= 5
                )
            )
            # By now all five are suspects, and share one place; the other is for the one that answers.
            asked = nodes.comet.asked.copy()
            await nodes.comet.until_asked("hub-0", more=20)
            hung = [nodes.comet.asked["default", f"hub-{n}"] for n in range(1, 6)]
            before = [asked["default", f"hub-{n}"] for n in range(1, 6)]
            assert sum(hung) - sum(before) < 20
            await eventually(lambda: nodes.of("hub-0").is_in_sync)
            assert nodes.of("hub-1").error == "The node did not answer within 0.5 s."

    @pytest.mark.criterion("COSMOS-A10-273")
    async def test_a_node_that_hangs_does_not_delay_the_others_of_its_set(
        self, seldom: Nodes
    ) -> None:
        seldom.comet.node("hub-0").hold()
        seldom.add(0, 1, 2)
        seldom.follow()
        await eventually(lambda: seldom.heights() == [None, 100, 100])


class TestLife:
    @pytest.mark.criterion("COSMOS-A4-8")
    async def test_a_set_that_is_gone_is_asked_no_more_and_leaves_nothing(
        self, nodes: Nodes
    ) -> None:
        before = asyncio.all_tasks()
        nodes.add(0, 1)
        nodes.comet.node("hub-1").hold()
        nodes.follow(folder="/x")
        await eventually(lambda: nodes.heights()[0] == 100)
        assert len(_ours(asyncio.all_tasks() - before)) == 5  # the set's, and two for each node
        await nodes.cache.forget(NAMESPACE, "hub")
        await nodes.cache.forget(NAMESPACE, "hub")
        assert _ours(asyncio.all_tasks() - before) == set()
        assert nodes.heights() == [None, None]
        assert nodes.sample("cosmos_cache_under_way") == 0

    @pytest.mark.criterion("COSMOS-A4-8")
    async def test_no_task_is_left_when_it_is_closed(self) -> None:
        before = asyncio.all_tasks()
        async with Nodes.start() as nodes:
            nodes.comet.node("other-0").hold()
            for name in ("hub", "other"):
                nodes.add(0, 1, name=name)
                nodes.follow(name, folder="/x")
            await eventually(lambda: nodes.heights() == [100, 100])
            running = asyncio.create_task(nodes.cache.start())
            await asyncio.sleep(0)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            assert _ours(asyncio.all_tasks() - before) == set()
            nodes.follow()  # a reconcile that was under way
            assert _ours(asyncio.all_tasks() - before) == set()
        await eventually(lambda: asyncio.all_tasks() == before)

    async def test_pods_that_come_and_go_leave_nothing(self, nodes: Nodes) -> None:
        nodes.add(0)
        nodes.follow()
        await eventually(lambda: nodes.heights() == [100])
        tasks = len(_ours(asyncio.all_tasks()))
        for _ in range(5):
            nodes.add(0)
            nodes.follow()
            await eventually(lambda: nodes.heights() == [100])
        await eventually(lambda: len(_ours(asyncio.all_tasks())) == tasks)
        assert sum(nodes.sample("cosmos_cache_nodes", state=s) for s in STATES) == 1


STATES = ("in_sync", "catching_up", "unreachable", "not_asked")


class TestMetrics:
    async def test_they_tell_what_is_asked_and_answered(self) -> None:
        now = datetime.now(UTC)
        async with Nodes.start(SELDOM, now=lambda: now) as nodes:
            assert nodes.sample("cosmos_cache_age_seconds") == 0
            nodes.add(0, 1, 2, 3)
            nodes.comet.node("hub-1").catching_up = True
            nodes.comet.node("hub-2").error = "no"
            nodes.comet.node("hub-3").hold()
            nodes.follow()
            await eventually(
                lambda: nodes.sample("cosmos_cache_questions_total", question="status") == 3
            )
            now += timedelta(seconds=9)
            counts = [nodes.sample("cosmos_cache_nodes", state=state) for state in STATES]
            assert counts == [1, 1, 1, 1]
            assert nodes.sample("cosmos_cache_age_seconds") == 9
            assert nodes.sample("cosmos_cache_under_way") == 1
            refused = {"question": "status", "reason": "Refused"}
            assert nodes.sample("cosmos_cache_errors_total", **refused) == 1


def _ours(tasks: set[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Those of the cache: not the server's, one for each connection."""
    return {task for task in tasks if "/internal/cosmos/cache/" in _file(task.get_coro())}


def _file(coroutine: object) -> str:
    assert isinstance(coroutine, CoroutineType)
    return coroutine.cr_code.co_filename
