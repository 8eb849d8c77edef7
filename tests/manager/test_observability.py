"""Metrics, logs, the watchdog and the garbage collector."""

from __future__ import annotations

import asyncio
import gc
import io
import json
import time

import pytest
import structlog

from ctrlruntime.manager.controller_series import (
    MAX_CLUSTERS,
    MAX_PRIORITIES,
    OTHER_CLUSTERS,
    PRIORITY_OVERFLOW,
    QUEUE_BUCKETS,
    RECONCILE_BUCKETS,
)
from ctrlruntime.manager.logs import REDACTED, make_logger
from ctrlruntime.manager.metrics import Metrics
from ctrlruntime.manager.watchdog import GCOptions, GCTuner, LoopWatchdog
from ctrlruntime.queue import QueueCore, Request
from tests.support.waiting import eventually


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def sample(metrics: Metrics, name: str, **labels: str) -> float | None:
    metrics.refresh()
    return metrics.registry.get_sample_value(name, {"name": "q", "controller": "q", **labels})


@pytest.fixture
def clock() -> Clock:
    return Clock()


def watched_queue(metrics: Metrics, clock: Clock) -> QueueCore:
    queue = QueueCore(clock, observer=metrics.controller("q", 1))
    metrics.watch_queue("q", queue)
    return queue


@pytest.mark.criterion("WQ-17")
def test_queue_metrics_follow_a_script_exactly(clock: Clock) -> None:
    metrics = Metrics()
    queue = watched_queue(metrics, clock)
    a, b = Request("a", namespace="default"), Request("b", namespace="default")
    queue.add(a)
    queue.add(a)
    assert sample(metrics, "workqueue_depth", priority="0") == 1
    assert sample(metrics, "workqueue_adds_total") == 1
    clock.now += 0.00005
    queue.pop()
    queue.add(b, rate_limited=True)
    assert sample(metrics, "workqueue_retries_total") == 1
    assert sample(metrics, "workqueue_depth", priority="0") == 0
    assert sample(metrics, "workqueue_queue_duration_seconds_count") == 1
    assert sample(metrics, "workqueue_queue_duration_seconds_bucket", le="1e-05") == 0
    assert sample(metrics, "workqueue_queue_duration_seconds_bucket", le="0.0001") == 1
    clock.now += 2
    assert sample(metrics, "workqueue_unfinished_work_seconds") == pytest.approx(2)
    queue.pop()
    clock.now += 1
    assert sample(metrics, "workqueue_unfinished_work_seconds") == pytest.approx(4)
    assert sample(metrics, "workqueue_longest_running_processor_seconds") == pytest.approx(3)
    queue.done(a)
    queue.done(b)
    assert sample(metrics, "workqueue_unfinished_work_seconds") == 0
    assert sample(metrics, "workqueue_work_duration_seconds_sum") == pytest.approx(4)
    assert sample(metrics, "workqueue_adds_total") == 2


@pytest.mark.criterion("PQ-10")
def test_depth_by_priority(clock: Clock) -> None:
    metrics = Metrics()
    queue = watched_queue(metrics, clock)
    queue.add(Request("a", namespace="default"), priority=-100)
    queue.add(Request("later", namespace="default"), after=5)
    assert sample(metrics, "workqueue_depth", priority="-100") == 1
    assert sample(metrics, "workqueue_depth", priority="0") is None
    queue.add(Request("a", namespace="default"))
    assert sample(metrics, "workqueue_depth", priority="-100") == 0
    assert sample(metrics, "workqueue_depth", priority="0") == 1


@pytest.mark.criterion("PQ-11")
def test_more_than_25_priorities_share_a_label(clock: Clock) -> None:
    metrics = Metrics()
    queue = watched_queue(metrics, clock)
    for priority in range(40):
        queue.add(Request(str(priority), namespace="default"), priority=priority)
    assert MAX_PRIORITIES == 25
    assert sample(metrics, "workqueue_depth", priority="24") == 1
    assert sample(metrics, "workqueue_depth", priority="25") is None
    assert sample(metrics, "workqueue_depth", priority=PRIORITY_OVERFLOW) == 15


RECONCILES = "controller_runtime_reconcile_total"


def reconciles(metrics: Metrics) -> dict[str, float]:
    """Successful reconciles by the label of the cluster; the manager's own has none."""
    found = {}
    for family in metrics.registry.collect():
        for each in family.samples:
            if (each.name, each.labels.get("result")) == (RECONCILES, "success"):
                found[each.labels.get("cluster", "")] = each.value
    return found


def test_controllers_of_several_clusters_have_at_most_50_values_of_the_label_cluster(
    clock: Clock,
) -> None:
    metrics = Metrics()
    queues = {}
    for cluster in ("", *(f"c{number}" for number in range(60))):
        series = metrics.controller("q", 2, cluster)
        queues[cluster] = QueueCore(clock, observer=series)
        metrics.watch_queue("q", queues[cluster], cluster)
        series.reconciled("success", 0.1)
        queues[cluster].add(Request("a", namespace="default"))
    assert MAX_CLUSTERS == 50
    found = reconciles(metrics)
    named = {"": 1.0, **{f"c{number}": 1.0 for number in range(49)}}
    assert found == {**named, OTHER_CLUSTERS: 11.0}
    assert sample(metrics, "workqueue_adds_total", cluster="c48") == 1
    assert sample(metrics, "workqueue_adds_total", cluster=OTHER_CLUSTERS) == 11
    workers = metrics.registry.get_sample_value(
        "controller_runtime_max_concurrent_reconciles",
        {"controller": "q", "cluster": OTHER_CLUSTERS},
    )
    assert workers == 22


def test_what_a_cluster_that_has_ended_counted_is_among_the_others_and_its_label_is_free(
    clock: Clock,
) -> None:
    metrics = Metrics()
    for number in range(200):
        cluster = f"c{number}"
        series = metrics.controller("q", 1, cluster)
        queue = QueueCore(clock, observer=series)
        metrics.watch_queue("q", queue, cluster)
        series.reconciled("success", 0.1)
        queue.add(Request("a", namespace="default"))
        assert reconciles(metrics)[cluster] == 1
        assert sum(reconciles(metrics).values()) == number + 1
        metrics.unwatch_queue("q", queue, cluster)
        assert reconciles(metrics) == {OTHER_CLUSTERS: number + 1}
    assert sample(metrics, "workqueue_adds_total", cluster=OTHER_CLUSTERS) == 200


def test_buckets_are_controller_runtimes() -> None:
    assert len(RECONCILE_BUCKETS) == 40
    assert RECONCILE_BUCKETS[0] == 0.005
    assert RECONCILE_BUCKETS[-1] == 60
    assert len(QUEUE_BUCKETS) == 12
    assert QUEUE_BUCKETS[0] == 1e-08
    assert QUEUE_BUCKETS[-1] == pytest.approx(1000)


@pytest.mark.criterion("PF-2")
def test_requests_are_counted_by_answer_and_measured_by_method() -> None:
    metrics = Metrics()
    metrics.requests.requested("PATCH", "server", "200", 0.02, 100, 5000)
    metrics.requests.requested("PATCH", "server", "409", 0.2, 100, 300)
    metrics.requests.requested("GET", "server", "200", 0.02, 0, 70)

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"rest_client_{name}", {"host": "server"} | labels)

    assert value("requests_total", method="PATCH", code="200") == 1
    assert value("requests_total", method="PATCH", code="409") == 1
    assert value("requests_total", method="GET", code="200") == 1
    assert value("request_duration_seconds_bucket", verb="PATCH", le="0.025") == 1
    assert value("request_duration_seconds_bucket", verb="PATCH", le="0.25") == 2
    assert value("request_duration_seconds_sum", verb="PATCH") == pytest.approx(0.22)
    assert value("request_size_bytes_sum", verb="PATCH") == 200
    assert value("response_size_bytes_count", verb="PATCH") == 2
    assert value("response_size_bytes_bucket", verb="GET", le="256.0") == 1


async def test_rendering_happens_off_the_loop() -> None:
    metrics = Metrics()
    threads: list[bool] = []
    loop = asyncio.get_running_loop()
    render = metrics.render

    def noted() -> bytes:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            threads.append(True)
        return render()

    metrics.render = noted  # type: ignore[method-assign]
    body, content_type = await metrics.scrape()
    assert loop.is_running()
    assert threads == [True]
    assert b"# TYPE controller_runtime_reconcile_total counter" in body
    assert b"rest_client_requests_total counter" in body
    assert b"_created" not in body
    assert content_type.startswith("text/plain")


class TestLogs:
    def test_json_lines_with_fixed_keys(self) -> None:
        out = io.StringIO()
        logger = make_logger(stream=out).bind(controller="tenant", namespace="a", name="b")
        logger.info("Hello", request=Request("b", namespace="a"))
        logger.debug("not shown")
        line = json.loads(out.getvalue())
        assert line.pop("ts").endswith("Z")
        assert line == {
            "level": "info",
            "msg": "Hello",
            "controller": "tenant",
            "namespace": "a",
            "name": "b",
            "request": "a/b",
        }

    @pytest.mark.parametrize("format", ["json", "console"])
    def test_nothing_secret_is_written(self, format: str) -> None:  # noqa: A002
        secret = {
            "kind": "Secret",
            "metadata": {
                "name": "s",
                "namespace": "n",
                "annotations": {"last-applied": "hunter2"},
            },
            "data": {"password": "hunter2"},
        }
        out = io.StringIO()
        logger = make_logger(stream=out, format=format)  # type: ignore[arg-type]
        logger.info("Applied", obj=secret, items=[secret], nested={"inner": secret})
        logger.info("Connecting", password="hunter2", settings={"token": "hunter2"})
        logger.info("Raw", data={"key": "hunter2"}, stringData={"key": "hunter2"})
        assert "hunter2" not in out.getvalue()
        assert REDACTED in out.getvalue()

    def test_objects_are_named_not_dumped(self) -> None:
        out = io.StringIO()
        tenant = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "b"},
            "spec": {"big": "x" * 1000},
        }
        make_logger(stream=out).info("Seen", obj=tenant)
        assert json.loads(out.getvalue())["obj"] == {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "namespace": "b",
            "name": "a",
        }

    def test_exceptions_keep_their_stack(self) -> None:
        out = io.StringIO()
        try:
            raise KeyError("spec")
        except KeyError:
            make_logger(stream=out).exception("Failed")
        assert "KeyError" in json.loads(out.getvalue())["exception"]

    def test_an_unknown_level_is_refused(self) -> None:
        with pytest.raises(ValueError, match="not one of debug"):
            make_logger(level="loud")


async def test_the_watchdog_sees_a_loop_that_stands_still() -> None:
    stalls: list[float] = []
    watchdog = LoopWatchdog(stalls.append, structlog.get_logger(), interval=0.01)
    task = asyncio.create_task(watchdog.start())
    await asyncio.sleep(0.05)
    time.sleep(0.2)  # noqa: ASYNC251 - the loop is to stand still
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert max(stalls) >= 0.15


async def test_the_collector_rests_during_the_initial_lists_and_is_put_back() -> None:
    thresholds, pauses = gc.get_threshold(), []
    discipline = GCTuner(
        GCOptions(manage=True), lambda generation, seconds: pauses.append((generation, seconds))
    )
    discipline.before_caches()
    try:
        assert not gc.isenabled()
        discipline.after_caches()
        assert gc.isenabled()
        assert gc.get_freeze_count() > 0
        assert gc.get_threshold() == GCOptions().thresholds
        assert pauses
    finally:
        discipline.end()
    assert gc.get_threshold() == thresholds
    assert gc.get_freeze_count() == 0
    assert not any(callback == discipline._time for callback in gc.callbacks)


async def test_young_objects_do_not_gather_while_old_ones_are_replaced() -> None:
    tuner = GCTuner(GCOptions(manage=True, young_period=0.01), lambda _generation, _seconds: None)
    held: list[list[int]] = [[] for _ in range(50_000)]
    tuner.before_caches()
    try:
        tuner.after_caches()
        for place in range(len(held)):
            held[place] = []  # one comes and one goes: the collector's count stays where it is
        assert len(gc.get_objects(generation=0)) >= len(held)
        await eventually(lambda: len(gc.get_objects(generation=0)) < len(held) / 10)
    finally:
        tuner.end()
