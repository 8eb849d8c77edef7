"""Looking for drift by a schedule: what an Instance requests, and what a run that looked found. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import ValidationError

from apis.cloud import DriftAction, DriftDetection, FoundDrift, TaskOperation, TaskRun, TaskStatus
from ctrlruntime.api import Condition, set_condition
from ctrlruntime.cache.entry import Entry
from ctrlruntime.schedule import BadSchedule, Schedule, parse

DRIFTED: Final = "Drifted"
"""Condition: what is there differs from what was applied. There only while True, or while that cannot be found out."""


@dataclass(frozen=True, slots=True)
class DriftCheck:
    """When a run looks for drift, and what it does with what it finds."""

    schedule: Schedule
    operation: TaskOperation
    """PLAN or REPAIR."""


def drift_check_of(instance: Entry | None) -> DriftCheck | None:
    """Return what an Instance requests; None if it requests nothing. Raises BadSchedule."""
    spec: Mapping[str, Any] = {} if instance is None else instance.field("spec") or {}
    given = spec.get("driftDetection")
    if given is None or (spec.get("debug") or {}).get("tfcRunsMode") == "vcs":
        return None
    try:
        wanted = DriftDetection.model_validate(given)
    except ValidationError:
        raise BadSchedule("spec.driftDetection cannot be read") from None
    repairs = wanted.action is DriftAction.APPLY
    return DriftCheck(schedule_of(wanted), TaskOperation.REPAIR if repairs else TaskOperation.PLAN)


def schedule_of(wanted: DriftDetection) -> Schedule:
    """Return the schedule. Raises BadSchedule, which names the field."""
    try:
        return parse(wanted.schedule, wanted.time_zone)
    except BadSchedule as error:
        raise BadSchedule(str(error).replace("spec.", "spec.driftDetection.", 1)) from None


def record_check(
    status: TaskStatus, found: str, instance: str, now: datetime, *, only_plans: bool = False
) -> None:
    """Record what a run that looked for drift found: `found` is what differs, empty for nothing.

    `only_plans`: no run applies anything until the instance requests otherwise.
    """
    run = status.run
    if run is None:
        return
    if status.succeeded is not None:
        status.succeeded.slot = run.slot
    if not found:
        forget_drift(status)
        return
    status.drift = _found(run, found, _to_apply(instance, only_plans=only_plans))
    show_drift(status, now)


def _to_apply(instance: str, *, only_plans: bool) -> str:
    first = "set spec.terraformRuns.operation of the Instance to Apply and " if only_plans else ""
    return f"{first}run `manager instance reconcile {instance} --kind InstanceTerraform`"


def _found(run: TaskRun, found: str, to_apply: str) -> FoundDrift:
    destroys = run.operation is TaskOperation.REPAIR
    why = " That destroys something, so it is not applied by itself." if destroys else ""
    return FoundDrift(
        reason="PlanDestroys" if destroys else "PlanHasChanges",
        message=(
            f"The infrastructure differs from what was applied: {found}.{why} To apply it,"
            f" {to_apply}."
        ),
    )


def show_drift(status: TaskStatus, now: datetime) -> None:
    """Set the condition by what was found last, also where it was removed by hand; without that it is not there.

    One that a manager left which kept nothing beside it stays.
    """
    if status.drift is not None:
        condition = Condition(
            type=DRIFTED,
            status="True",
            reason=status.drift.reason,
            message=status.drift.message,
            observed_generation=status.observed_generation,
        )
        set_condition(status.conditions, condition, now)
        return
    status.conditions = [
        item for item in status.conditions if item.type != DRIFTED or item.status == "True"
    ]


def record_bad_schedule(status: TaskStatus, problem: str, now: datetime) -> None:
    """Record that nothing looks for drift, and why."""
    condition = Condition(
        type=DRIFTED,
        status="Unknown",
        reason="InvalidSchedule",
        message=f"No run looks for drift: {problem}",
        observed_generation=status.observed_generation,
    )
    set_condition(status.conditions, condition, now)


def forget_drift(status: TaskStatus) -> None:
    """Remove the condition: nothing differs, or nothing looks for that."""
    status.drift = None
    status.conditions = [item for item in status.conditions if item.type != DRIFTED]
