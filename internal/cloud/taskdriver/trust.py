"""What of a status can be believed. A status may be edited by hand, or come out of a backup. Pure.

A recorded run counts only under the name that follows from what it says it is for; where the record
falls away, the provider's list of runs is asked instead. What is missing is filled in so that
nothing waits forever.
"""

from datetime import datetime, timedelta

from apis.cloud import TaskOutcome, TaskRun, TaskState, TaskStatus
from internal.cloud.runs import RunOwner
from internal.cloud.taskdriver.record import CONDITIONS, is_live, is_named_rightly
from internal.cloud.tasks.definition import TaskDefinition


def trusted(
    status: TaskStatus, owner: RunOwner, definition: TaskDefinition, now: datetime
) -> TaskStatus:
    """A copy of the status with what can be believed."""
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
