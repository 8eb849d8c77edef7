"""The text of a status: phase, conditions, and what is waited for. Pure."""

from dataclasses import replace
from datetime import datetime
from typing import Final, Literal

from apis.cloud import (
    Phase,
    TaskOperation,
    TaskOutcome,
    TaskRun,
    TaskState,
    TaskStatus,
    Waiting,
    WaitingReason,
)
from ctrlruntime.api import Condition, format_time, set_condition
from internal.cloud.labels import RETRY, TEARDOWN_APPROVED
from internal.cloud.taskdriver.context import Leaving, Situation
from internal.cloud.taskdriver.drift_checks import (
    forget_drift,
    record_bad_schedule,
    show_drift,
)
from internal.cloud.taskdriver.inputs import READY, is_fulfilled
from internal.cloud.taskdriver.plan_approval import plan_message, set_awaits_approval
from internal.cloud.taskdriver.record import ENDS, is_live
from internal.cloud.taskdriver.scheduling import is_interrupted
from internal.cloud.taskdriver.state_locks import LEFT_LOCKED, lock_message

HELD: Final = "Held"
"""Condition of an object that is being deleted while nothing may be torn down."""


ADVICE: Final = "Nothing more is tried: "
"""What begins the last sentence of the message of an object that failed: what to do about that object."""


def summarize(s: Situation, status: TaskStatus) -> None:
    """Fill in what follows from the rest of the status, in place."""
    status.observed_generation = s.generation
    status.phase, status.message = _phase(s, status)
    ready: Literal["True", "False"] = "True" if _is_ready(s, status) else "False"
    reason = "Succeeded" if ready == "True" else _reason(s, status)
    condition = Condition(
        type=READY,
        status=ready,
        reason=reason,
        message=status.message,
        observed_generation=s.generation,
    )
    set_condition(status.conditions, condition, s.now)
    _summarize_held(s, status)
    _summarize_plan(s, status)
    if s.bad_schedule:
        record_bad_schedule(status, s.bad_schedule, s.now)
    elif s.drift_check is None and not s.plans.only:
        forget_drift(status)
    else:
        show_drift(status, s.now)


def _summarize_plan(s: Situation, status: TaskStatus) -> None:
    """Set the condition AwaitsApproval, which is there only while a plan waits for a person."""
    after = replace(s, status=status)
    plan = after.undecided_plan
    message = "" if plan is None else plan_message(plan, s.plans, s.instance)
    set_awaits_approval(status, message, s.now)


def _summarize_held(s: Situation, status: TaskStatus) -> None:
    """Set the condition Held, which is there only while True."""
    if not is_held_back(s):
        status.conditions = [item for item in status.conditions if item.type != HELD]
        return
    condition = Condition(
        type=HELD,
        status="True",
        reason="InstanceMissing" if s.orphaned else "InstanceProtected",
        message=_held_back(s),
        observed_generation=s.generation,
    )
    set_condition(status.conditions, condition, s.now)


def is_held_back(s: Situation) -> bool:
    """Whether the object is being deleted, and nothing is torn down for now."""
    return s.deleting and s.definition.teardown and s.leaving is Leaving.HOLD


def _held_back(s: Situation) -> str:
    if not s.orphaned:
        return "Being deleted, and held back: its instance is protected, so nothing is torn down."
    return (
        f"Being deleted, and held back: its Instance {s.instance!r} is missing, so nothing is torn "
        "down. Create the Instance again with the same spec to keep what was made, or set the "
        f"annotation {TEARDOWN_APPROVED}={s.owner.uid} on this object to tear it down."
    )


def _reason(s: Situation, status: TaskStatus) -> str:
    shown = s.held is not None and status.message == s.held.message
    return s.held.reason if s.held is not None and shown else status.phase.value


def _is_ready(s: Situation, status: TaskStatus) -> bool:
    return not s.deleting and is_fulfilled(status, s.inputs, once=s.definition.once)


def _phase(s: Situation, status: TaskStatus) -> tuple[Phase, str]:
    if s.deleting:
        return Phase.DELETING, _leaving(s, status)
    if status.waiting is not None:
        return Phase.WAITING, waiting_message(s.definition.name, status.waiting)
    if is_live(status.run):
        return Phase.RUNNING, _running(s, status)
    if s.superseded:
        return Phase.SUPERSEDED, _superseded(s, status)
    if s.paused:
        return Phase.PAUSED, f"Paused by the annotation {s.pause}. Remove it to go on."
    if s.held is not None and not (s.held.interrupts and _is_ready(s, status)):
        return Phase.PENDING, s.held.message
    if _is_ready(s, status):
        said = _last_words(status)
        return Phase.READY, said or "Task completed."
    return _unready(s, status)


def _last_words(status: TaskStatus) -> str:
    run = status.run
    if run is None:
        return ""
    if run.operation is TaskOperation.PLAN and run.outcome is not TaskOutcome.SUCCEEDED:
        return f"Drift could not be looked for. {_end(run)}"
    return run.message


def _unready(s: Situation, status: TaskStatus) -> tuple[Phase, str]:
    last = status.run
    failed = last is not None and last.outcome is not TaskOutcome.SUCCEEDED
    if last is None or not failed or not s.first_attempt().continues(last):
        return Phase.PENDING, f"A run of {s.definition.name} is due."
    if last.retry_at is not None:
        following = f"Attempt {last.attempt + 1} follows at {format_time(last.retry_at)}."
        return Phase.RETRYING, f"{_end(last)}{_locked(s, status)} {following}"
    return Phase.FAILED, f"{_end(last)}{_locked(s, status)} {_advice(s, last)}"


def _locked(s: Situation, status: TaskStatus) -> str:
    lock = status.state_lock
    return "" if lock is None else f" {lock_message(lock, s.instance, s.owner.namespace)}"


def _end(run: TaskRun) -> str:
    said = ENDS[run.outcome or TaskOutcome.LOST]
    text = f"{said}: {run.message}".rstrip(".") + "." if run.message else f"{said}."
    return f"{text} {LEFT_LOCKED}" if run.state_lock_holder else text


def _advice(s: Situation, run: TaskRun) -> str:
    change = "" if run.operation is TaskOperation.TEARDOWN else "change the spec, or "
    if s.definition.once:
        change = "change the spec of the Instance, or "
    repair = f"to go on, {change}" if s.is_cancelled(run) else f"mend the cause, then {change}"
    return f"{ADVICE}{repair}give the annotation {RETRY} another value."


def _superseded(s: Situation, status: TaskStatus) -> str:
    """Return what became of an upgrade before another one took its place."""
    last = status.run
    if status.succeeded is not None:
        return "Task completed. Another version or another spec was wanted meanwhile."
    ended = _end(last) if last is not None else f"No run of {s.definition.name} was started."
    return f"{ended} Another version or another spec is wanted: no further attempt follows."


def _running(s: Situation, status: TaskStatus) -> str:
    run = status.run
    if run is None:
        return ""
    if s.is_cancelled(run):
        return f"{_interrupted(s, run)}; no other follows by itself."
    if run.interrupt_at is not None:
        following = "the current inputs are carried out"
        if s.superseded:
            following = "the upgrade that is wanted now is carried out"
        if s.held is not None and s.held.interrupts:
            following = "the instance is torn down"
        return f"{_interrupted(s, run)}; then {following}."
    if s.superseded:
        return "The run under way is awaited; then the upgrade that is wanted now is carried out."
    if run.superseded:
        return _awaited(s)
    if run.deadline is not None and s.now >= run.deadline:
        return f"The run has taken longer than {s.definition.timeout:g} s and is being cancelled."
    if run.message:
        return run.message[:1].upper() + run.message[1:]
    attempt = f", attempt {run.attempt}" if run.attempt > 1 else ""
    stage = "being started" if run.state is TaskState.CREATING else "under way"
    return f"Task {s.definition.name} is {stage}{attempt}."


def _awaited(s: Situation) -> str:
    awaited = "A run for earlier inputs is awaited; then the current ones are carried out."
    if not s.definition.guards_changes:
        return awaited
    return (
        f"{awaited} It may be applying, so newer inputs do not interrupt it; `manager instance cancel {s.instance}"
        f" -n {s.owner.namespace}` does."
    )


def _interrupted(s: Situation, run: TaskRun) -> str:
    what = "A run for earlier inputs" if run.superseded and not s.deleting else "The run under way"
    if run.interrupt_at is None or is_interrupted(run, s.now):
        return f"{what} is being cancelled"
    return (
        f"{what} is awaited, and cancelled at {format_time(run.interrupt_at)} unless it has ended"
    )


def _leaving(s: Situation, status: TaskStatus) -> str:
    run = status.run
    if is_held_back(s) and not is_live(run):
        return _held_back(s)
    if status.waiting is not None:
        return f"Being deleted. {waiting_message(s.definition.name, status.waiting)}"
    if s.definition.teardown and s.leaving is Leaving.RELEASE and not is_live(run):
        return "Being deleted with its CRD: what it made stays, and an object of this name finds it again."
    if s.definition.teardown and s.leaving is Leaving.KEEP:
        return (
            "Being deleted: its instance is protected, so what it made stays and it is made anew."
        )
    if run is None or not s.definition.teardown:
        return "Being deleted: its runs are removed."
    if is_live(run) and run.operation is not TaskOperation.TEARDOWN:
        if run.interrupt_at is not None:
            return f"Being deleted. {_interrupted(s, run)}; then the teardown begins."
        return "Being deleted: the run under way is awaited before the teardown."
    if run.operation is TaskOperation.TEARDOWN and run.outcome is TaskOutcome.SUCCEEDED:
        return "Being deleted: torn down; its runs are removed."
    return _tearing_down(s, status, run)


def _tearing_down(s: Situation, status: TaskStatus, run: TaskRun) -> str:
    if s.paused:
        return f"Being deleted, but paused by the annotation {s.pause}. Remove it to go on."
    if run.operation is TaskOperation.TEARDOWN and not is_live(run):
        if run.retry_at is not None:
            following = f"attempt {run.attempt + 1} follows at {format_time(run.retry_at)}."
            return f"Being deleted. Teardown: {_end(run)}{_locked(s, status)} {following}"
        return f"Being deleted. Teardown: {_end(run)}{_locked(s, status)} {_advice(s, run)}"
    if s.is_cancelled(run):
        return f"Being deleted. {_interrupted(s, run)}; no other follows by itself."
    return "Being deleted: the teardown is under way."


LEAST_MOVE = 0.2
"""Share by which a position has to change to be worth a write."""


def refreshed(before: Waiting | None, now_waiting: Waiting, now: datetime, least: float) -> Waiting:
    """Return what to write: what stands there, or the news if they are worth it and `least` seconds passed."""
    news = now_waiting.model_copy(update={"as_of": now})
    if before is None or _of_leader(before) != _of_leader(news):
        return news
    if before.as_of is not None and (now - before.as_of).total_seconds() < least:
        return before
    moved = abs(news.position - before.position) >= max(1.0, LEAST_MOVE * before.position)
    changed = _kind_of_wait(news) != _kind_of_wait(before)
    return news if moved or changed else before


def _of_leader(waiting: Waiting) -> tuple[bool, bool]:
    """Return what the leader of several managers waits for, or gave: it is never left as it is for a time."""
    return (waiting.reason is WaitingReason.TURN, waiting.granted_at is not None)


def _kind_of_wait(waiting: Waiting) -> tuple[object, ...]:
    return (waiting.reason, waiting.limit, waiting.priority)


def next_look(waiting: Waiting, now: datetime, least: float) -> float:
    """Seconds until the status is looked at again: as long as it has waited, at least `least`."""
    return max(least, (now - waiting.since).total_seconds())


def waiting_message(task: str, waiting: Waiting) -> str:
    """Return what is waited for, in a sentence that does not change with the position."""
    if waiting.reason is WaitingReason.APPROVAL:
        return f"Waiting: {waiting.message}."
    if waiting.reason in (WaitingReason.FROZEN, WaitingReason.WINDOW):
        return f"Waiting: {waiting.message}."
    if waiting.reason is WaitingReason.TURN:
        return f"Waiting: {waiting.message}." if waiting.message else "Waiting for a place."
    if waiting.reason is WaitingReason.INSTANCE_BUSY:
        return f"Waiting for {waiting.holder}, which works on the same instance."
    if waiting.reason is WaitingReason.RATE:
        return f"Waiting: at most {waiting.limit} of {task} may start in a minute."
    return f"Waiting for a place: at most {waiting.limit} of {task} may run at once."
