"""The reconcile loop on virtual time: requirements CT-*."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.controller import (
    ControllerOptions,
    ReconcileContext,
    ReconcileError,
    Result,
    SourceSyncTimeout,
    TerminalError,
    reconcile_context,
)
from ctrlruntime.queue import Request

from .support import A, B, GateSource, Script, controller, running, series, settled

pytestmark = pytest.mark.looptime


class Mistake(TypeError):
    """A bug, not an error a reconciler raises on purpose."""


@pytest.mark.criterion("CT-01")
async def test_no_reconcile_before_every_source_delivered_its_initial_list() -> None:
    script, first, second = Script(), GateSource("first").open(), GateSource("second")
    second.may_start.set()
    subject = controller(script, sources=[first, second])
    subject.queue.add(A)
    async with running(subject):
        await asyncio.sleep(60)
        assert script.runs == []
        second.may_sync.set()
        await script.until(1)


@pytest.mark.criterion("CT-02")
async def test_a_source_that_does_not_sync_fails_the_start_by_name() -> None:
    source = GateSource("of widgets")
    source.may_start.set()
    subject = controller(Script(), sources=[source])
    with pytest.raises(SourceSyncTimeout, match="120 s waiting for source of widgets to sync"):
        await subject.start()
    assert asyncio.get_running_loop().time() == pytest.approx(120, abs=1)
    assert source.stops == 1


@pytest.mark.criterion("CT-03")
async def test_a_source_whose_start_blocks_is_reported_as_such() -> None:
    subject = controller(Script(), sources=[GateSource("of widgets")])
    with pytest.raises(SourceSyncTimeout, match=r"source of widgets to start; its start\(\) must"):
        await subject.start()


@pytest.mark.criterion("CT-04")
async def test_cancelling_during_sync_is_no_error() -> None:
    source = GateSource()
    subject = controller(Script(), sources=[source])
    with capture_logs() as logs:
        async with running(subject) as task:
            await settled()
        assert task.cancelled()
    assert [line for line in logs if line["log_level"] == "error"] == []
    assert source.stops == 1


@pytest.mark.criterion("CT-05")
async def test_starting_twice_is_an_error() -> None:
    subject = controller(Script())
    async with running(subject):
        await settled()
        with pytest.raises(RuntimeError, match="started more than once"):
            await subject.start()


@pytest.mark.criterion("CT-06")
async def test_at_most_n_reconciles_at_once_and_never_two_of_one_key() -> None:
    busy: dict[Request, int] = {}
    most = 0

    async def reconcile(request: Request) -> None:
        nonlocal most
        assert busy.get(request, 0) == 0
        busy[request] = 1
        most = max(most, sum(busy.values()))
        await asyncio.sleep(1)
        busy[request] = 0

    from ctrlruntime.controller.reconcile import FuncReconciler

    subject = controller(FuncReconciler(reconcile), ControllerOptions(max_concurrent_reconciles=3))
    async with running(subject):
        for round_ in range(4):
            for index in range(10):
                subject.queue.add(Request(f"{index}", namespace="default"), priority=round_)
            await asyncio.sleep(0.5)
        await asyncio.sleep(60)
    assert most == 3
    assert len(busy) == 10


@pytest.mark.criterion("CT-07")
async def test_an_error_requeues_with_growing_delay_until_a_run_succeeds() -> None:
    script = Script(OSError("1"), OSError("2"), OSError("3"), None)
    subject = controller(script)
    async with running(subject):
        subject.queue.add(A)
        await script.until(4)
        await settled()
        assert subject.queue.retries(A) == 0
    gaps = [b - a for a, b in zip(script.times, script.times[1:], strict=False)]
    assert gaps == pytest.approx([0.005, 0.01, 0.02], abs=0.002)


@pytest.mark.criterion("CT-07")
async def test_the_failure_count_stays_while_runs_fail() -> None:
    script = Script(*[OSError(str(index)) for index in range(5)])
    subject = controller(script)
    async with running(subject):
        subject.queue.add(A)
        await script.until(5)
        assert subject.queue.retries(A) >= 4


@pytest.mark.criterion("CT-08")
async def test_a_terminal_error_is_counted_twice_and_not_requeued() -> None:
    script, metrics = Script(TerminalError("no such plan")), series()
    subject = controller(script, metrics=metrics)
    async with running(subject):
        subject.queue.add(A)
        await asyncio.sleep(5000)
    assert script.runs == [A]
    assert (metrics.errors, metrics.terminal_errors) == (1, 1)
    assert metrics.outcomes["error"] == 1
    assert subject.queue.retries(A) == 0


@pytest.mark.criterion("LV-8")
@pytest.mark.parametrize("end", [TerminalError("no such plan"), None], ids=["terminal", "success"])
async def test_the_failure_count_begins_anew_after_a_terminal_error_and_after_a_success(
    end: Exception | None,
) -> None:
    script = Script(OSError("1"), OSError("2"), OSError("3"), end, OSError("4"))
    subject = controller(script)
    async with running(subject):
        subject.queue.add(A)
        await script.until(4)
        await settled()
        assert subject.queue.retries(A) == 0
        subject.queue.add(A)
        await script.until(6)
    delays = [later - sooner for sooner, later in pairwise(script.times)]
    assert delays[:3] == pytest.approx([0.005, 0.01, 0.02])
    assert delays[4] == pytest.approx(0.005)


@pytest.mark.criterion("CT-09")
async def test_requeue_after_clears_failures_and_runs_again_then() -> None:
    script, metrics = Script(OSError("once"), Result(requeue_after=30)), series()
    subject = controller(script, metrics=metrics)
    async with running(subject):
        subject.queue.add(A)
        await script.until(2)
        await settled()
        assert subject.queue.retries(A) == 0
        await script.until(3)
    assert script.times[2] - script.times[1] == pytest.approx(30, abs=0.1)
    assert metrics.outcomes["requeue_after"] == 1


@pytest.mark.criterion("CT-10")
async def test_an_error_with_requeue_after_takes_the_error_path_with_one_warning() -> None:
    script = Script(ReconcileError("later", result=Result(requeue_after=500)))
    with capture_logs() as logs:
        subject = controller(script)
        async with running(subject):
            subject.queue.add(A)
            await script.until(2)
    assert script.times[1] - script.times[0] < 1
    warnings = [line for line in logs if line["log_level"] == "warning"]
    assert len(warnings) == 1
    assert "requeue_after is ignored" in warnings[0]["event"]


@pytest.mark.criterion("CT-11")
@pytest.mark.parametrize("empty", [None, Result(), Result(requeue_after=0)])
async def test_an_empty_result_ends_it(empty: Result | None) -> None:
    script, metrics = Script(OSError("once"), empty), series()
    subject = controller(script, metrics=metrics)
    async with running(subject):
        subject.queue.add(A)
        await asyncio.sleep(5000)
        assert subject.queue.retries(A) == 0
    assert len(script.runs) == 2
    assert metrics.outcomes["success"] == 1


@pytest.mark.criterion("CT-12")
async def test_a_bug_in_a_reconciler_is_counted_and_the_controller_goes_on() -> None:
    script, metrics = Script(Mistake("None has no spec")), series()
    with capture_logs() as logs:
        subject = controller(script, metrics=metrics)
        async with running(subject):
            subject.queue.add(A)
            subject.queue.add(B)
            await script.until(3)
    assert script.runs == [A, B, A]
    assert (metrics.panics, metrics.errors) == (1, 1)
    assert any("Mistake: None has no spec" in line.get("exception", "") for line in logs)


@pytest.mark.criterion("CT-12")
async def test_a_cancellation_from_within_is_an_error_like_any_other() -> None:
    script, metrics = Script(asyncio.CancelledError(), None), series()
    with capture_logs() as logs:
        subject = controller(script, metrics=metrics)
        async with running(subject):
            subject.queue.add(A)
            await script.until(2)
    assert script.runs == [A, A]
    assert (metrics.panics, metrics.errors) == (0, 1)
    assert any("was cancelled from within" in line.get("exception", "") for line in logs)


@pytest.mark.criterion("CT-13")
async def test_without_recovery_a_bug_stops_the_controller() -> None:
    metrics = series()
    subject = controller(
        Script(Mistake("boom")), ControllerOptions(recover_panic=False), metrics=metrics
    )
    subject.queue.add(A)
    with pytest.raises(Mistake, match="boom"):
        await subject.start()
    assert metrics.panics == 1
    assert metrics.active_workers == 0


@pytest.mark.criterion("CT-13")
async def test_without_recovery_an_ordinary_error_is_still_retried() -> None:
    script = Script(OSError("flaky"))
    subject = controller(script, ControllerOptions(recover_panic=False))
    async with running(subject):
        subject.queue.add(A)
        await script.until(2)


def sleeping(seconds: float) -> Callable[[], Coroutine[Any, Any, None]]:
    async def sleep() -> None:
        await asyncio.sleep(seconds)

    return sleep


@pytest.mark.criterion("CT-14")
async def test_the_reconciliation_timeout_cancels_the_run_and_is_counted() -> None:
    script, metrics = Script(sleeping(1000)), series()
    subject = controller(script, ControllerOptions(reconciliation_timeout=5), metrics=metrics)
    async with running(subject):
        subject.queue.add(A)
        await script.until(2)
    assert script.times[1] - script.times[0] == pytest.approx(5, abs=0.1)
    assert (metrics.timeouts, metrics.errors) == (1, 1)


@pytest.mark.criterion("CT-14")
async def test_a_timeout_of_the_reconciler_itself_is_not_counted_as_ours() -> None:
    async def inner() -> None:
        async with asyncio.timeout(1):
            await asyncio.sleep(100)

    script, metrics = Script(inner), series()
    subject = controller(script, ControllerOptions(reconciliation_timeout=50), metrics=metrics)
    async with running(subject):
        subject.queue.add(A)
        await script.until(2)
    assert (metrics.timeouts, metrics.errors) == (0, 1)


@pytest.mark.criterion("CT-15")
@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (OSError("retry"), 7),
        (Result(requeue_after=1), 7),
        (Result(requeue_after=1, priority=3), 3),
        (ReconcileError("retry", result=Result(priority=50)), 50),
    ],
)
async def test_priority_is_kept_unless_the_result_differs(
    outcome: Exception | Result, expected: int
) -> None:
    seen: list[int] = []

    def note() -> Awaitable[Result | None]:
        seen.append(reconcile_context().priority)
        if len(seen) == 1:
            if isinstance(outcome, Exception):
                raise outcome
            return asyncio.sleep(0, outcome)
        return asyncio.sleep(0)

    script = Script(note, note)
    subject = controller(script)
    async with running(subject):
        subject.queue.add(A, priority=7)
        await script.until(2)
    assert seen == [7, expected]


@pytest.mark.criterion("CT-17")
async def test_active_workers_follow_the_runs() -> None:
    metrics = series()
    during: list[int] = []

    def note() -> Awaitable[None]:
        during.append(metrics.active_workers)
        raise Mistake("boom")

    subject = controller(Script(note), metrics=metrics)
    async with running(subject):
        subject.queue.add(A)
        await asyncio.sleep(10)
    assert during == [1]
    assert metrics.active_workers == 0


@pytest.mark.criterion("CT-18")
async def test_each_run_has_its_own_id_in_log_and_context() -> None:
    runs: list[ReconcileContext] = []

    def note() -> Awaitable[None]:
        runs.append(reconcile_context())
        reconcile_context().logger.info("hello")
        return asyncio.sleep(0)

    with capture_logs() as logs:
        subject = controller(
            Script(note, note), logger=structlog.get_logger(), kind=GroupKind("apps", "Deployment")
        )
        async with running(subject):
            subject.queue.add(A, reason="Deployment updated")
            await asyncio.sleep(1)
            subject.queue.add(A)
            await asyncio.sleep(1)
    hello = [line for line in logs if line["event"] == "hello"]
    assert [line["reconcileID"] for line in hello] == [run.reconcile_id for run in runs]
    assert len({run.reconcile_id for run in runs}) == 2
    assert runs[0].reasons == {"Deployment updated"}
    assert {
        key: hello[0][key]
        for key in ("controller", "controllerGroup", "controllerKind", "namespace", "name")
    } == {
        "controller": "test",
        "controllerGroup": "apps",
        "controllerKind": "Deployment",
        "namespace": "default",
        "name": "a",
    }


async def test_current_outside_of_a_reconcile_is_an_error() -> None:
    with pytest.raises(LookupError, match="no reconcile in progress"):
        reconcile_context()


@pytest.mark.criterion("CT-20")
async def test_defaults_and_how_they_are_overridden() -> None:
    from ctrlruntime.controller.options import merged

    settings = ControllerOptions().settings()
    assert (settings.workers, settings.cache_sync_timeout) == (1, 120.0)
    assert settings.reconciliation_timeout is None
    assert settings.recover_panic
    manager = ControllerOptions(max_concurrent_reconciles=4, recover_panic=False)
    own = merged(ControllerOptions(max_concurrent_reconciles=2), manager)
    assert (own.workers, own.recover_panic) == (2, False)
    with pytest.raises(ValueError, match="needs a name"):
        type(controller(Script()))("", Script())
    with pytest.raises(TypeError, match="needs a reconciler"):
        controller(None)
    with pytest.raises(ValueError, match="at least 1"):
        ControllerOptions(max_concurrent_reconciles=0).settings()


@pytest.mark.criterion("SH-12")
async def test_concurrency_by_group_kind() -> None:
    from ctrlruntime.controller.options import merged

    manager = ControllerOptions(
        max_concurrent_reconciles=2, group_kind_concurrency={"Deployment.apps": 9}
    )
    kind = GroupKind("apps", "Deployment")
    assert merged(ControllerOptions(), manager, kind).workers == 9
    assert merged(ControllerOptions(max_concurrent_reconciles=5), manager, kind).workers == 5
    assert merged(ControllerOptions(), manager, GroupKind("", "Pod")).workers == 2


@pytest.mark.criterion("CT-21")
async def test_sources_added_early_wait_and_added_late_begin_at_once() -> None:
    early, late = GateSource("early").open(), GateSource("late").open()
    subject = controller(Script())
    subject.watch(early)
    await settled()
    assert early.starts == 0
    async with running(subject):
        await settled()
        assert early.starts == 1
        subject.watch(late)
        await settled()
        assert late.starts == 1
        await subject.unwatch(late)
        assert late.stops == 1
    assert (early.stops, late.stops) == (1, 1)
    with pytest.raises(RuntimeError, match="has stopped"):
        subject.watch(late)


@pytest.mark.criterion("CT-22")
async def test_warm_up_fills_the_queue_without_reconciling() -> None:
    source, script = GateSource().open(), Script()
    subject = controller(script, ControllerOptions(enable_warmup=True), sources=[source])
    warming = asyncio.create_task(subject.warmup())
    await settled()
    subject.queue.add(A)
    await asyncio.sleep(100)
    assert script.runs == []
    async with running(subject):
        await script.until(1)
    assert source.starts == 1
    warming.cancel()
    await asyncio.gather(warming, return_exceptions=True)


@pytest.mark.criterion("CT-23")
async def test_a_failure_of_the_warm_up_reaches_both_callers() -> None:
    source = GateSource()
    source.may_start.set()
    subject = controller(Script(), sources=[source])
    warming = asyncio.create_task(subject.warmup())
    await settled()
    results = await asyncio.gather(warming, subject.start(), return_exceptions=True)
    assert [type(result) for result in results] == [SourceSyncTimeout, SourceSyncTimeout]
    assert source.starts == 1


@pytest.mark.criterion("CT-24")
async def test_stopping_cancels_running_reconciles_and_awaits_them() -> None:
    ended: list[str] = []

    async def slow() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(1)
            ended.append("cleaned up")

    script = Script(slow)
    subject = controller(script)
    async with running(subject) as task:
        subject.queue.add(A)
        await script.until(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert ended == ["cleaned up"]


@pytest.mark.criterion("CT-24")
async def test_a_reconciler_that_swallows_the_cancellation_gets_no_further_item() -> None:
    async def stubborn() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            return

    script = Script(stubborn)
    subject = controller(script)
    async with running(subject) as task:
        subject.queue.add(A)
        subject.queue.add(B)
        await script.until(1)
        task.cancel()
        await asyncio.wait_for(asyncio.gather(task, return_exceptions=True), 60)
    assert script.runs == [A]


async def test_workers_leave_the_loop_its_turn() -> None:
    """A backlog of reconciles that never wait must not hold up other tasks."""
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    script = Script()
    subject = controller(script, ControllerOptions(max_concurrent_reconciles=4))
    for index in range(500):
        subject.queue.add(Request(str(index), namespace="default"))
    ticking = asyncio.create_task(other())
    async with running(subject):
        await script.until(500)
    ticking.cancel()
    await asyncio.gather(ticking, return_exceptions=True)
    assert turns > 10


@pytest.mark.criterion("LV-5")
async def test_lv_5_reasons_of_a_run_are_those_of_this_run() -> None:
    reasons: list[set[str]] = []

    async def look() -> Result:
        reasons.append(set(reconcile_context().reasons))
        return Result(requeue_after=60)

    async def fail() -> Result:
        reasons.append(set(reconcile_context().reasons))
        raise RuntimeError("no")

    script = Script(look, look, look, fail, look)
    subject = controller(script)
    async with running(subject):
        for count, reason in enumerate(("first", "second"), 1):
            subject.queue.add(A, reason=reason)
            await script.until(count)
            await settled()
        await script.until(3)
        await settled()
        subject.queue.add(A, reason="third")
        await script.until(5)
    assert reasons == [
        {"first"},
        {"second"},
        {"requeued by the reconciler"},
        {"third"},
        {"retried after an error"},
    ]
