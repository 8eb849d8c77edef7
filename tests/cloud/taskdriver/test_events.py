"""What a pass tells: events, metrics, spans. The same for every type of task."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

from apis.cloud import InstanceTerraform
from ctrlruntime.api import BUILTIN, GroupVersionKind
from ctrlruntime.tracing import Tracing
from internal.cloud.runs import RunState
from internal.cloud.tasks.task import Concurrency
from tests.cloud.taskdriver.harness import NAMESPACE, PLAIN, TaskDriverHarness, run_of

EVENT = BUILTIN[GroupVersionKind("events.k8s.io", "v1", "Event")]


async def events(harness: TaskDriverHarness) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = await harness.admin.list(EVENT, NAMESPACE)
    return sorted(found, key=lambda item: item["metadata"]["name"])


def value(registry: CollectorRegistry, name: str, **labels: str) -> float:
    return registry.get_sample_value(name, labels) or 0.0


@pytest.mark.criterion("SG-61")
async def test_one_event_for_each_step(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        await life.drive()
        await life.finish()
        await life.drive()
    run = run_of((await harness.read()).status)
    told = await events(harness)
    about = f"inputsVersion: {run.inputs_version}"
    known = f"{about}, runID: {run.run_id}"
    assert [item["note"] for item in told] == [
        f"Pending=True: Queue for immediate execution ({about})",
        f"Creating=True: Ready to create task ({about})",
        f"Created=True: New task execution created ({known})",
        f"Started=True: Execution found, but not yet complete ({known})",
        f"Done=True: Task completed ({known})",
    ]
    assert {item["reason"] for item in told} == {"taskdriver.Ensure"}
    assert {item["type"] for item in told} == {"Normal"}
    assert {item["regarding"]["name"] for item in told} == {"acme"}
    assert not any("series" in item for item in told)


@pytest.mark.criterion("SG-61")
async def test_a_failure_is_a_warning(harness: TaskDriverHarness) -> None:
    await harness.make()
    async with harness.life() as life:
        await life.drive()
        await life.finish(RunState.FAILED, message="no quota")
        harness.clock.advance(60.0)
        await life.drive()
    told = await events(harness)
    assert told[-3]["type"] == "Warning"
    assert told[-3]["note"].startswith("Done=False: Task failed: no quota")
    further = [item["note"].partition(" (")[0] for item in told[-2:]]
    assert further == [
        "Pending=True: Queue for immediate execution, attempt 2",
        "Creating=True: Ready to create task, attempt 2",
    ]
    assert not any("series" in item for item in told), "each attempt has its own events"


@pytest.mark.criterion("SG-60")
async def test_every_type_of_task_has_the_same_metrics(harness: TaskDriverHarness) -> None:
    definitions = [
        replace(PLAIN, name=name, concurrency=Concurrency(limit=1))
        for name in ("terraform", "kubernetes")
    ]
    async with harness.life() as life:
        for definition in definitions:
            names = [f"{definition.name}-{number}" for number in (1, 2)]
            for name in names:
                await harness.make(name)
                await life.drive(name, definition=definition)
            given = {"task": definition.name}
            registry = life.registry
            assert value(registry, "cloud_task_running", **given) == 1
            assert value(registry, "cloud_task_waiting", **given) == 1
            harness.clock.advance(10)
            await life.finish(RunState.FAILED, names[0], definition=definition)
            await life.drive(names[1], definition=definition)
            await life.finish(RunState.SUCCEEDED, names[1], definition=definition)
            harness.clock.advance(60)
            await life.drive(names[0], definition=definition)
            assert value(registry, "cloud_task_dispatched_total", **given) == 3
            assert value(registry, "cloud_task_retries_total", **given) == 1
            assert value(registry, "cloud_task_results_total", **given, result="Failed") == 1
            assert value(registry, "cloud_task_results_total", **given, result="Succeeded") == 1
            assert value(registry, "cloud_task_duration_seconds_count", **given) == 2
            assert value(registry, "cloud_task_wait_seconds_sum", **given) >= 10
            assert value(registry, "cloud_task_running", **given) == 1
            assert value(registry, "cloud_task_waiting", **given) == 0
            assert value(registry, "cloud_task_objects", **given, phase="Retrying") == 0
            await harness.admin.delete(InstanceTerraform, names[0], namespace=NAMESPACE)
            await life.finish(RunState.FAILED, names[0], definition=definition)
            assert value(registry, "cloud_task_running", **given) == 0
        series = {
            sample.name: set(sample.labels)
            for metric in life.registry.collect()
            for sample in metric.samples
        }
    assert {"instance", "name", "namespace"}.isdisjoint(set().union(*series.values()))


@pytest.mark.criterion("SG-60")
async def test_a_trace_leads_from_the_pass_to_the_end_of_the_run(
    harness: TaskDriverHarness,
) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracing = Tracing(provider)
    await harness.make()
    async with harness.life(tracing=tracing) as life:
        with tracing.reconcile("reconcile", [], {}):
            await life.drive()
        harness.clock.advance(100)
        with tracing.reconcile("reconcile", [], {}):
            await life.finish(RunState.FAILED, message="no quota")
    run = run_of((await harness.read()).status)
    ended: list[Any] = list(exporter.get_finished_spans())
    spans = {span.name: span for span in ended}
    first = next(span for span in ended if span.name == "reconcile")
    start, whole = spans["task start"], spans["task terraform"]
    assert start.attributes["run_id"] == whole.attributes["run_id"] == run.run_id
    assert start.context.trace_id == first.context.trace_id
    assert whole.context.trace_id == first.context.trace_id, "the trace that started it"
    assert (whole.end_time - whole.start_time) / 1e9 >= 100
    assert not whole.status.is_ok
    request = harness.outside.requests[run.run_id].input
    assert f"{first.context.trace_id:032x}" in request.traceparent, "and the task goes on with it"


@pytest.mark.criterion("H-B8")
async def test_h_b8_what_a_run_reports_while_it_is_under_way_is_recorded_now_and_then(
    harness: TaskDriverHarness,
) -> None:
    await harness.make()
    async with harness.life(told=True) as life:
        await life.drive()
        run_id = run_of((await harness.read()).status).run_id
        harness.outside.move(run_id, RunState.RUNNING, message="planning")
        await life.drive()
        status = (await harness.read()).status
        assert (run_of(status).message, status.message) == ("planning", "Planning")

        mark = harness.env.proxy.log.mark()
        for number in range(20):
            harness.clock.advance(1)
            harness.outside.move(run_id, RunState.RUNNING, message=f"applying: {number} done")
            await life.drive()
        assert harness.env.proxy.log.since(mark).select(user="manager").writes == 0
        harness.clock.advance(life.tools.pace.progress)
        await life.drive()
        assert run_of((await harness.read()).status).message == "applying: 19 done"
        await life.finish(message="2 added")
    assert run_of((await harness.read()).status).message == "2 added"
