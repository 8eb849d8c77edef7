"""What a pass tells: an event for each step, metrics, log lines, a span for each run that ended."""

from collections.abc import Sequence
from typing import Any, Final, Literal

import structlog
from structlog.typing import FilteringBoundLogger

from apis.cloud import TaskCondition, TaskOutcome, TaskRun, TaskState, TaskStatus
from ctrlruntime.api import Resource, find_condition
from internal.cloud.taskdriver.context import Decision, Hold, Situation
from internal.cloud.taskdriver.deps import Tools
from internal.cloud.taskdriver.drift_checks import DRIFTED
from internal.cloud.taskdriver.inputs import READY
from internal.cloud.taskdriver.plan_approval import AWAITS_APPROVAL
from internal.cloud.taskdriver.record import is_live
from internal.cloud.taskdriver.scheduling import is_done

REASON: Final = "taskdriver.Ensure"
"""Reason of the events for steps of a run."""

_log: FilteringBoundLogger = structlog.get_logger("cloud.taskdriver")


def event_note(step: TaskCondition) -> str:
    """`Created=True: New task execution created`, with what it is about."""
    about = [f"inputsVersion: {step.inputs_version}"] if step.inputs_version else []
    about += [f"runID: {step.run_id}"] if step.run_id else []
    return f"{step.type.value}={step.status}: {step.message} ({', '.join(about)})"


def report_steps(
    tools: Tools, s: Situation, resource: Resource[Any, TaskStatus], steps: Sequence[TaskCondition]
) -> None:
    """One event and one log line for each step that was written."""
    for step in steps:
        kind = "Normal" if step.status == "True" else "Warning"
        if step.reason == TaskOutcome.CANCELLED.value:
            kind = "Normal"
        tools.recorder.event(
            resource,
            "Warning" if kind == "Warning" else "Normal",
            REASON,
            step.type.value,
            event_note(step),
        )
        _log.info(
            step.message,
            state=step.type.value,
            task=s.definition.name,
            run_id=step.run_id,
            inputs_version=step.inputs_version,
            instance=f"{s.owner.namespace}/{s.instance}",
        )


def report_hold(
    tools: Tools, hold: Hold | None, resource: Resource[Any, TaskStatus], after: TaskStatus
) -> None:
    """Record one Warning event when the condition Ready begins to carry the reason of a hold."""
    before = find_condition(resource.status.conditions, READY)
    condition = find_condition(after.conditions, READY)
    if hold is None or hold.interrupts or condition is None or condition.reason != hold.reason:
        return
    if before is None or before.reason != hold.reason:
        tools.recorder.event(resource, "Warning", hold.reason, "Hold", hold.message)


def report_drift(tools: Tools, resource: Resource[Any, TaskStatus], after: TaskStatus) -> None:
    """Record one Warning event when the condition Drifted appears or gets another message."""
    before = find_condition(resource.status.conditions, DRIFTED)
    now = find_condition(after.conditions, DRIFTED)
    if now is None or (before is not None and before.message == now.message):
        return
    tools.recorder.event(resource, "Warning", DRIFTED, "Plan", now.message)


def report_plan(tools: Tools, resource: Resource[Any, TaskStatus], after: TaskStatus) -> None:
    """Record one event when the condition AwaitsApproval appears or gets another message."""
    before = find_condition(resource.status.conditions, AWAITS_APPROVAL)
    now = find_condition(after.conditions, AWAITS_APPROVAL)
    if now is None or (before is not None and before.message == now.message):
        return
    kind: Literal["Normal", "Warning"] = "Warning" if now.reason == "PlanDestroys" else "Normal"
    tools.recorder.event(resource, kind, AWAITS_APPROVAL, "Plan", now.message)


def report_repair(
    tools: Tools, s: Situation, resource: Resource[Any, TaskStatus], decision: Decision
) -> None:
    """Record one Warning event when a run is begun only because something differs from what the last one left."""
    if not s.drift or not decision.start or is_live(s.status.run) or not is_done(s, s.status):
        return
    tools.recorder.event(resource, "Warning", DRIFTED, "Repair", s.drift)
    _log.warning(
        "Drift",
        drift=s.drift,
        task=s.definition.name,
        instance=f"{s.owner.namespace}/{s.instance}",
    )


def report_end(tools: Tools, s: Situation, run: TaskRun) -> None:
    """Metrics and span of a run that is recorded as ended."""
    if run.state is not TaskState.DONE:
        return
    tools.metrics.ended(s.definition.name, run)
    if run.created_at is None or run.finished_at is None:
        return
    outcome = (run.outcome or TaskOutcome.LOST).value
    tools.tracing.elapsed(
        f"task {s.definition.name}",
        run.traceparent,
        run.created_at,
        max(run.created_at, run.finished_at),
        {
            "task": s.definition.name,
            "run_id": run.run_id,
            "inputs_version": run.inputs_version,
            "instance": f"{s.owner.namespace}/{s.instance}",
            "outcome": outcome,
        },
        error="" if run.outcome is TaskOutcome.SUCCEEDED else f"{outcome}: {run.message}",
    )
