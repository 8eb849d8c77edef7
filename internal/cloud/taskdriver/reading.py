"""Objects that drive tasks, as typed, and what of a status can be believed. Pure.

A status may be edited by hand, or come out of a backup. A recorded run counts only under the name that
follows from what it is recorded to be for; where the record falls away, the provider's list of runs is
read instead. What is missing is filled in so that nothing waits forever.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, TypeVar

from pydantic import ValidationError

from apis.cloud import Instance, TaskOutcome, TaskRun, TaskState, TaskStatus
from ctrlruntime.api import OwnerReference, Resource
from internal.cloud.labels import INSTANCE
from internal.cloud.runs import RunOwner
from internal.cloud.taskdriver.record import CONDITIONS, is_live, is_named_rightly
from internal.cloud.tasks.definition import TaskDefinition

R = TypeVar("R", bound=Resource[Any, TaskStatus])


def typed(kind: type[R], manifest: Mapping[str, Any]) -> R | None:
    """Return an object as its kind. A status that cannot be read counts as none; None if the spec cannot."""
    try:
        return kind.from_manifest(manifest)
    except ValidationError:
        pass
    try:
        return kind.from_manifest({**manifest, "status": {}})
    except ValidationError:
        return None


def instance_reference(resource: Resource[Any, TaskStatus]) -> OwnerReference | None:
    """Return the reference to the instance that controls an object."""
    for reference in resource.metadata.owner_references or ():
        if reference.controller and reference.kind == Instance.gvk().kind:
            return reference
    return None


def instance_name(resource: Resource[Any, TaskStatus]) -> str:
    """Return the name of an object's instance: by owner, else by its spec (`instanceName`) or label, else its own."""
    reference = instance_reference(resource)
    if reference is not None:
        return reference.name
    named = getattr(resource.spec, "instance_name", None)
    if isinstance(named, str) and named:
        return named
    return (resource.metadata.labels or {}).get(INSTANCE) or resource.metadata.name or ""


def trusted(
    status: TaskStatus, owner: RunOwner, definition: TaskDefinition, now: datetime
) -> TaskStatus:
    """Return a copy of the status with what can be believed."""
    result = status.model_copy(deep=True)
    if result.run is not None and not _is_believable(result.run, owner, definition):
        result.run = None
    result.history = [
        run
        for run in result.history
        if run.state is TaskState.DONE and is_named_rightly(run, owner, definition.name)
    ]
    result.task_conditions = result.task_conditions[:CONDITIONS]
    if result.run is not None:
        _mend(result.run, definition, now)
    return result


def _is_believable(run: TaskRun, owner: RunOwner, definition: TaskDefinition) -> bool:
    known = run.state is not TaskState.PENDING and run.attempt >= 1
    return known and is_named_rightly(run, owner, definition.name)


def _mend(run: TaskRun, definition: TaskDefinition, now: datetime) -> None:
    if is_live(run):
        run.created_at = min(run.created_at or now, now)
        latest = now + timedelta(seconds=definition.timeout)
        run.deadline = min(run.deadline or latest, latest)
        run.outcome = run.finished_at = run.retry_at = None
        return
    run.outcome = run.outcome or TaskOutcome.LOST
    run.finished_at = min(run.finished_at or now, now)
