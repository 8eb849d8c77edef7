"""Runs that changed nothing since a person has to decide, as the condition DeletionsHeld of their Instance. Pure."""

from collections.abc import Iterable

from apis.cloud import TaskRun, TaskStatus
from ctrlruntime.api import Condition, find_condition
from ctrlruntime.api.conditions import Conditions, new_condition
from internal.cloud.instance.order import Child
from internal.cloud.taskdriver.record import is_live
from internal.removal_holds import HELD, nothing_held


def held_run(statuses: Iterable[TaskStatus]) -> TaskRun | None:
    """Return the first run that ended and waits for a decision."""
    runs = (status.run for status in statuses)
    return next((run for run in runs if run is not None and run.hold and not is_live(run)), None)


def held_child(children: Iterable[Child]) -> TaskRun | None:
    """Return the run of the first subresource whose turn it is and that waits for a decision."""
    return held_run(each.status for each in children if not each.waits_for and not each.silent)


def held_conditions(
    before: Conditions, run: TaskRun | None, generation: int
) -> tuple[Condition, ...]:
    """Return the condition DeletionsHeld; none before the first hold."""
    if run is not None:
        message = run.message[:1].upper() + run.message[1:]
        return (new_condition(HELD, True, run.hold, message, generation=generation),)
    return () if find_condition(before, HELD) is None else (nothing_held(generation),)
