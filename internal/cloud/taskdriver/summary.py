"""Phase, message and Ready: the whole of a status in a few words for people. Pure."""

from typing import Final, Literal

from apis.cloud import Phase, TaskOperation, TaskOutcome, TaskRun, TaskStatus
from ctrlruntime.api import Condition, format_time, set_condition
from internal.cloud.marks import PAUSED, RETRY
from internal.cloud.taskdriver.due import is_current
from internal.cloud.taskdriver.record import ENDS, is_live
from internal.cloud.taskdriver.situation import Leaving, Situation
from internal.cloud.taskdriver.waiting import waiting_message
from internal.cloud.tasks.definition import Supersede

READY: Final = "Ready"


def summarize(s: Situation, status: TaskStatus) -> None:
    """Fill in what follows from the rest of the status, in place."""
    status.observed_generation = s.generation
    status.phase, status.message = _phase(s, status)
    ready: Literal["True", "False"] = "True" if is_ready(s, status) else "False"
    reason = "Succeeded" if ready == "True" else status.phase.value
    condition = Condition(
        type=READY,
        status=ready,
        reason=reason,
        message=status.message,
        observed_generation=s.generation,
    )
    set_condition(status.conditions, condition, s.now)


def is_ready(s: Situation, status: TaskStatus) -> bool:
    """Whether the current inputs are carried out, and no later attempt at them has failed."""
    done = status.succeeded
    if done is None or s.deleting:
        return False
    if s.definition.once:
        return True
    last = status.run
    failed = last is not None and last.outcome not in (None, TaskOutcome.SUCCEEDED)
    return is_current(done, s.inputs) and not failed


def _phase(s: Situation, status: TaskStatus) -> tuple[Phase, str]:
    if s.deleting:
        return Phase.DELETING, _leaving(s, status)
    if status.waiting is not None:
        return Phase.WAITING, waiting_message(s.definition.name, status.waiting)
    if is_live(status.run):
        return Phase.RUNNING, _running(s, status)
    if s.paused:
        return Phase.PAUSED, f"Paused by the annotation {PAUSED}. Remove it to go on."
    if s.held:
        return Phase.PENDING, s.held
    if is_ready(s, status):
        said = status.run.message if status.run is not None else ""
        return Phase.READY, said or "Task completed."
    return _unready(s, status)


def _unready(s: Situation, status: TaskStatus) -> tuple[Phase, str]:
    last = status.run
    failed = last is not None and last.outcome is not TaskOutcome.SUCCEEDED
    if last is None or not failed or not s.first_attempt().continues(last):
        return Phase.PENDING, f"A run of {s.definition.name} is due."
    if last.retry_at is not None:
        following = f"Attempt {last.attempt + 1} follows at {format_time(last.retry_at)}."
        return Phase.RETRYING, f"{_end(last)} {following}"
    return Phase.FAILED, f"{_end(last)} {_advice(last)}"


def _end(run: TaskRun) -> str:
    said = ENDS[run.outcome or TaskOutcome.LOST]
    return f"{said}: {run.message}".rstrip(".") + "." if run.message else f"{said}."


def _advice(run: TaskRun) -> str:
    change = "" if run.operation is TaskOperation.TEARDOWN else "change the spec, or "
    return (
        f"Nothing more is tried: mend the cause, then {change}give the annotation {RETRY} "
        "another value."
    )


def _running(s: Situation, status: TaskStatus) -> str:
    run = status.run
    if run is None:
        return ""
    if run.message:
        return run.message
    if run.superseded and s.definition.supersede is Supersede.CANCEL:
        return "A run for earlier inputs is being cancelled; then the current ones are carried out."
    if run.superseded:
        return "A run for earlier inputs is awaited; then the current ones are carried out."
    if run.deadline is not None and s.now >= run.deadline:
        return f"The run has taken longer than {s.definition.timeout:g} s and is being cancelled."
    attempt = f", attempt {run.attempt}" if run.attempt > 1 else ""
    return f"Task {s.definition.name} is under way{attempt}."


def _leaving(s: Situation, status: TaskStatus) -> str:
    run = status.run
    if status.waiting is not None:
        return f"Being deleted. {waiting_message(s.definition.name, status.waiting)}"
    if s.definition.teardown and s.leaving is Leaving.HOLD:
        return "Being deleted, and held back: its instance is protected, so nothing is torn down."
    if s.definition.teardown and s.leaving is Leaving.KEEP:
        return (
            "Being deleted: its instance is protected, so what it made stays and it is made anew."
        )
    if run is None or not s.definition.teardown:
        return "Being deleted: its runs are removed."
    if is_live(run) and run.operation is TaskOperation.APPLY:
        return "Being deleted: the run under way is awaited before the teardown."
    if run.operation is TaskOperation.TEARDOWN and run.outcome is TaskOutcome.SUCCEEDED:
        return "Being deleted: torn down; its runs are removed."
    if s.paused:
        return f"Being deleted, but paused by the annotation {PAUSED}. Remove it to go on."
    if run.operation is TaskOperation.TEARDOWN and not is_live(run):
        if run.retry_at is not None:
            following = f"attempt {run.attempt + 1} follows at {format_time(run.retry_at)}."
            return f"Being deleted. Teardown: {_end(run)} {following}"
        return f"Being deleted. Teardown: {_end(run)} {_advice(run)}"
    return "Being deleted: the teardown is under way."
