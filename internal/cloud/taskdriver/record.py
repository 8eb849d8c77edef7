"""The record of runs in a status, and how it moves on. Pure: no server and no clock.

The states of a run are passed through in order and never back. Several that are noticed at once are
recorded at once, each with a condition of its own.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from apis.cloud import (
    TaskCondition,
    TaskOperation,
    TaskOutcome,
    TaskRun,
    TaskState,
    TaskStatus,
    TaskSuccess,
)
from ctrlruntime.api import Resource, format_time, parse_time
from ctrlruntime.resources.revision import canonical
from ctrlruntime.schedule import Schedule
from internal.cloud.runs import Run, RunName, RunOwner, RunState
from internal.cloud.tasks.plans import PLAN
from internal.cloud.tasks.task import (
    DESTROYED,
    DRIFT,
    INTERRUPTIBLE,
    POSSIBLY_BUILT,
    RECORDED,
    TORN_DOWN,
    Retries,
)


def owner_of(resource: Resource[Any, TaskStatus]) -> RunOwner:
    """Return the owner that runs of the object are kept under."""
    return RunOwner(
        api_version=resource.api_version,
        kind=resource.kind,
        namespace=resource.metadata.namespace or "",
        name=resource.metadata.name or "",
        uid=resource.metadata.uid or "",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a run is for. There is at most one live run of each, however often it is started."""

    owner_uid: str
    operation: TaskOperation
    inputs_version: str
    attempt: int
    slot: str = ""

    @classmethod
    def of(cls, owner: RunOwner, run: TaskRun) -> "Identity":
        """Return the inputs that a recorded run names."""
        return cls(
            owner_uid=owner.uid,
            operation=run.operation,
            inputs_version=run.inputs_version,
            attempt=run.attempt,
            slot=run.slot,
        )

    def run_id(self, task: str) -> RunName:
        """`<task>-<12 hex>`."""
        parts = [self.owner_uid, self.operation, self.inputs_version, self.attempt, self.slot]
        return f"{task}-{hashlib.sha256(canonical(parts)).hexdigest()[:12]}"

    def following(self, count: int) -> Iterator["Identity"]:
        """Yield this one and the attempts after it."""
        for attempt in range(self.attempt, self.attempt + count):
            yield replace(self, attempt=attempt)

    def continues(self, run: TaskRun) -> bool:
        """Whether a recorded run was an attempt at the same thing."""
        return (run.operation, run.inputs_version, run.slot) == (
            self.operation,
            self.inputs_version,
            self.slot,
        )


@dataclass(frozen=True, slots=True)
class Slot:
    """One period of one object."""

    name: str
    """Its start as time; later slots sort after earlier ones."""
    end: datetime
    """When the next one begins."""


def slot_at(now: datetime, period: float, uid: str) -> Slot:
    """Return the slot of an object at a time. `period` in seconds, at least one.

    Slots of different objects begin at different times, spread over the period by UID, so that a
    fleet does not run all at once.
    """
    seconds = max(1, int(period))
    offset = int.from_bytes(hashlib.sha256(uid.encode()).digest()[:8], "big") % seconds
    since = int(now.timestamp()) - offset
    start = since - since % seconds + offset
    return Slot(
        format_time(datetime.fromtimestamp(start, UTC)),
        datetime.fromtimestamp(start + seconds, UTC),
    )


def scheduled_slot(now: datetime, schedule: Schedule) -> Slot | None:
    """Return the slot that began at the last time of a schedule; None before the first.

    Of several times that were missed, the last one counts.
    """
    since = schedule.latest(BEGINNING, now, BEGINNING)
    if since is None:
        return None
    end = schedule.next(now, BEGINNING) or now + timedelta(days=3650)
    return Slot(format_time(since), end)


def covers(done: str, slot: Slot) -> bool:
    """Whether what was done in the slot named `done` counts for `slot`. Nonsense counts for none."""
    try:
        return parse_time(done) >= parse_time(slot.name) and parse_time(done) < slot.end
    except ValueError:
        return False


BEGINNING: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""When every schedule began."""
CONDITIONS: Final = 20
"""Task conditions that are kept."""
ORDER: Final = tuple(TaskState)
LIVE: Final = frozenset({TaskState.CREATING, TaskState.CREATED, TaskState.STARTED})
"""States of a run that may be under way, or may come into being."""

STEPS: Final = {
    TaskState.PENDING: "Queue for immediate execution",
    TaskState.CREATING: "Ready to create task",
    TaskState.CREATED: "New task execution created",
    TaskState.STARTED: "Execution found, but not yet complete",
}
"""What is said of a step, but for the last."""

ENDS: Final = {
    TaskOutcome.SUCCEEDED: "Task completed",
    TaskOutcome.FAILED: "Task failed",
    TaskOutcome.REJECTED: "Task rejected its inputs",
    TaskOutcome.TIMED_OUT: "Task took too long",
    TaskOutcome.LOST: "Execution is gone, and how it ended is unknown",
    TaskOutcome.CANCELLED: "Task was cancelled",
}
"""What is said of the last step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a run ended."""

    outcome: TaskOutcome
    message: str = ""
    lost: bool = False
    """Whether its Pod or node was lost."""
    logs: str = ""
    started_at: datetime | None = None
    finished_at: datetime


def is_live(run: TaskRun | None) -> bool:
    """Whether a recorded run may be under way, or may come into being."""
    return run is not None and run.state in LIVE


def is_named_rightly(run: TaskRun, owner: RunOwner, task: str) -> bool:
    """Return whether a recorded run has the name that follows from its inputs.

    A run that was found under way without a record has no inputs version, and any name.
    """
    if not run.inputs_version:
        return bool(run.run_id)
    return run.run_id == Identity.of(owner, run).run_id(task)


def advance(
    status: TaskStatus, to: TaskState, now: datetime, *, seen: Run | None = None
) -> list[TaskCondition]:
    """Take the recorded run from its state to a later one that is not the last, in place.

    Returns the steps made, oldest first; none if it is there already.
    """
    run = status.run
    if run is None:
        return []
    steps = [_step(run, state, now) for state in _between(run.state, to)]
    run.state = max(run.state, to, key=ORDER.index)
    if seen is not None:
        run.logs = seen.logs or run.logs
    if run.state is TaskState.STARTED and run.started_at is None:
        run.started_at = (seen.started_at if seen is not None else None) or now
    _remember(status, steps)
    return steps


def finish(status: TaskStatus, end: End, now: datetime) -> list[TaskCondition]:
    """Record the end of the run.

    A state that was not observed is skipped: a run that is lost before it was seen running counts as one that
    never ran.
    """
    run = status.run
    if run is None or run.state is TaskState.DONE:
        return []
    through = ORDER[:-1] if end.started_at is not None or _ran(end.outcome) else ()
    steps = [_step(run, state, now) for state in _between(run.state, TaskState.DONE)]
    steps = [step for step in steps if step.type in through]
    run.state, run.outcome, run.message = TaskState.DONE, end.outcome, end.message
    run.lost = end.lost
    run.logs = end.logs or run.logs
    run.started_at = end.started_at or run.started_at
    run.finished_at = min(end.finished_at, now)
    steps.append(_last_step(run, now))
    _remember(status, steps)
    return steps


def _ran(outcome: TaskOutcome) -> bool:
    return outcome in (TaskOutcome.SUCCEEDED, TaskOutcome.FAILED)


def how_it_ended(seen: Run, run: TaskRun, now: datetime) -> End:
    """Return the end of a run that its provider shows as finished.

    A cancelled run is one that took too long if that is why it was cancelled.
    """
    overdue = run.deadline is not None and now >= run.deadline
    cancelled = TaskOutcome.CANCELLED
    if overdue and not run.superseded:
        cancelled = TaskOutcome.TIMED_OUT
    outcome = {
        RunState.SUCCEEDED: TaskOutcome.SUCCEEDED,
        RunState.FAILED: TaskOutcome.FAILED if seen.retryable else TaskOutcome.REJECTED,
        RunState.TIMED_OUT: TaskOutcome.TIMED_OUT,
        RunState.CANCELLED: cancelled,
    }[seen.state]
    message = seen.message
    if (
        seen.started_at is None
        and run.message
        and outcome not in (TaskOutcome.SUCCEEDED, cancelled)
    ):
        message = f"{message}; before that: {run.message}"  # what kept it from beginning
    return End(
        outcome=outcome,
        message=message,
        lost=seen.lost,
        logs=seen.logs,
        started_at=seen.started_at,
        finished_at=seen.finished_at or now,
    )


def retry_time(run: TaskRun, retries: Retries, tries: int) -> datetime | None:
    """Return when the next attempt is scheduled after a run that ended; None if none follows by itself."""
    if run.outcome in (TaskOutcome.SUCCEEDED, TaskOutcome.REJECTED, None):
        return None
    if retries.exhausted(tries) or run.finished_at is None:
        return None
    if run.superseded:
        return run.finished_at
    return run.finished_at + timedelta(seconds=retries.delay(tries))


def tries_of(run: TaskRun, status: TaskStatus) -> int:
    """How many attempts were made at what `run` is for since it last succeeded, `run` included."""
    since = 0
    for other in status.history:
        same = (other.operation, other.inputs_version, other.slot) == (
            run.operation,
            run.inputs_version,
            run.slot,
        )
        if same and other.outcome is TaskOutcome.SUCCEEDED and other.attempt < run.attempt:
            since = max(since, other.attempt)
    return max(1, run.attempt - since)


def is_excused_loss(status: TaskStatus) -> bool:
    """Whether the recorded run was lost with its Pod or node, once since the same thing last succeeded.

    What loses two runs may be their cause.
    """
    run = status.run
    if run is None or not run.lost:
        return False
    thing = (run.operation, run.inputs_version, run.slot)
    for other in status.history:  # the newest first
        if (other.operation, other.inputs_version, other.slot) == thing:
            if other.outcome is TaskOutcome.SUCCEEDED:
                return True
            if other.lost:
                return False
    return True


def last_attempt(status: TaskStatus, identity: Identity) -> int:
    """Return the number of the last recorded attempt at the same thing; 0 if there is none."""
    known = [run for run in (status.run, *status.history) if run is not None]
    return max((run.attempt for run in known if identity.continues(run)), default=0)


def succeed(status: TaskStatus, seen: Run, now: datetime) -> None:
    """Record what a run that succeeded carried out, and what it handed back."""
    run = status.run
    if run is None or not run.inputs_version:
        return
    status.outputs = dict(sorted(seen.outputs.items()))
    status.record = dict(sorted(seen.record.items()))
    status.succeeded = TaskSuccess(
        inputs_version=run.inputs_version,
        run_id=run.run_id,
        inputs_hash=run.inputs_hash,
        slot=run.slot,
        finished_at=run.finished_at or now,
    )


def proof_of(record: Mapping[str, str]) -> dict[str, str]:
    """Return what of a record only a success leaves."""
    return {name: text for name, text in record.items() if name not in {POSSIBLY_BUILT, TORN_DOWN}}


def record_traces(
    status: TaskStatus, run: TaskRun, outputs: Mapping[str, str], *, built: bool
) -> None:
    """Record in place what a run that ended may have left, if it did not succeed.

    One that was ended in the midst of a change has built what no success shows; a teardown may have removed the state
    that shows it. `built`: a success is on record.
    """
    if run.outcome is TaskOutcome.SUCCEEDED:
        return
    if run.operation is TaskOperation.TEARDOWN:
        if outputs.get(DESTROYED):
            status.record = {**status.record, TORN_DOWN: "true"}
    elif not built and (run.started_at is not None and outputs.get(INTERRUPTIBLE) != "true"):
        status.record = {**status.record, POSSIBLY_BUILT: "true"}


def record_reported(status: TaskStatus, outputs: Mapping[str, str]) -> None:
    """Record in place what a run under way, or one that did not succeed, reported of where it works."""
    found = {
        name.removeprefix(RECORDED): text
        for name, text in outputs.items()
        if name.startswith(RECORDED)
    }
    status.record = {**status.record, **found}


def has_built(seen: Run) -> bool:
    """Return whether a run, by what it handed back, succeeded and applied something."""
    handed_back = seen.record or (seen.outputs and not seen.outputs.keys() & {DRIFT, PLAN})
    return seen.state is RunState.SUCCEEDED and bool(handed_back)


def replace_run(status: TaskStatus, run: TaskRun, *, history: int) -> None:
    """Put another run in the place of the last one, which becomes history. Capped, newest first."""
    before = status.run
    if before is not None and before.run_id != run.run_id and before.state is TaskState.DONE:
        status.history = [before, *status.history]
    status.history = [item for item in status.history if item.run_id != run.run_id]
    status.history = status.history[: max(0, history - 1)]
    status.run = run


def note(
    status: TaskStatus,
    steps: Sequence[TaskState],
    version: str,
    now: datetime,
    *,
    message: str = "",
    attempt: int = 1,
) -> list[TaskCondition]:
    """Record steps that come before there is a run. `message` takes the place of the usual words.

    They name a further attempt: events with equal words are one with a count, and these name no run yet.
    """
    further = f", attempt {attempt}" if attempt > 1 else ""
    made = [
        TaskCondition(
            type=state,
            reason=state.value,
            message=message or f"{STEPS[state]}{further}",
            inputs_version=version,
            last_transition_time=now,
        )
        for state in steps
    ]
    _remember(status, made)
    return made


def _between(state: TaskState, to: TaskState) -> Sequence[TaskState]:
    """Return the states after one, up to another, in order; without the last of all."""
    end = -1 if to is TaskState.DONE else ORDER.index(to) + 1
    return ORDER[ORDER.index(state) + 1 : end]


def _step(run: TaskRun, state: TaskState, now: datetime) -> TaskCondition:
    known = state not in (TaskState.PENDING, TaskState.CREATING)
    return TaskCondition(
        type=state,
        reason=state.value,
        message=STEPS[state],
        inputs_version=run.inputs_version,
        run_id=run.run_id if known else "",
        last_transition_time=now,
    )


def _last_step(run: TaskRun, now: datetime) -> TaskCondition:
    outcome = run.outcome or TaskOutcome.LOST
    said = f": {run.message}" if run.message and outcome is not TaskOutcome.SUCCEEDED else ""
    return TaskCondition(
        type=TaskState.DONE,
        status="True" if outcome is TaskOutcome.SUCCEEDED else "False",
        reason=outcome.value,
        message=f"{ENDS[outcome]}{said}",
        inputs_version=run.inputs_version,
        run_id=run.run_id,
        last_transition_time=now,
    )


def _remember(status: TaskStatus, steps: Sequence[TaskCondition]) -> None:
    if steps:
        status.task_conditions = [*reversed(steps), *status.task_conditions][:CONDITIONS]
