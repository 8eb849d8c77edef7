"""What to do next.

Pure: a situation, what the provider shows and what the limiter answers go in; the status to write and the
effects to perform come out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from apis.cloud import (
    PlanDecision,
    PlannedChange,
    TaskCondition,
    TaskOperation,
    TaskOutcome,
    TaskRun,
    TaskState,
    TaskStatus,
)
from apis.cloud import Waiting as TaskWaiting
from ctrlruntime.rollout import Waiting
from internal.cloud.change_holds import held_waiting
from internal.cloud.concurrency import Denial
from internal.cloud.runs import Run, RunState
from internal.cloud.taskdriver.context import Decision, Leaving, Rest, Situation
from internal.cloud.taskdriver.drift_checks import forget_drift, record_check
from internal.cloud.taskdriver.inputs import CHECKS, is_carried_out, is_current, was_built
from internal.cloud.taskdriver.plan_approval import plan_message, plan_waiting, record_plan
from internal.cloud.taskdriver.record import (
    End,
    Identity,
    advance,
    finish,
    how_it_ended,
    is_live,
    note,
    record_reported,
    record_traces,
    replace_run,
    succeed,
)
from internal.cloud.taskdriver.scheduling import (
    interrupt_time,
    is_held_change,
    is_interrupted,
    is_superseded,
    next_attempt_time,
    next_run,
)
from internal.cloud.taskdriver.state_locks import record_lock
from internal.cloud.taskdriver.summary import next_look, refreshed, waiting_message
from internal.cloud.taskdriver.unavailable import failure_of
from internal.cloud.tasks.plans import NOTHING_TO_CHANGE, plan_of
from internal.cloud.tasks.task import DRIFT, HOLD, INTERRUPTIBLE, Supersede

SEARCHED = 64
"""Attempts at the current inputs that are looked for among runs without a record."""


# -- a run is recorded as under way -----------------------------------------------------------


def follow(s: Situation, seen: Run | None) -> Decision:
    """Decide on a recorded run that is under way, or was, by what its provider shows of it.

    ``start`` in the answer means that it is not there yet and has to be granted and started.
    """
    status, run = _copy(s)
    if not (run.superseded and s.definition.supersede is Supersede.CANCEL):
        run.superseded = is_superseded(s, run)
    run.interrupt_at = interrupt_time(s, run, interruptible=_is_interruptible(seen))
    if seen is None:
        return _absent(s, status, run)
    status.waiting = None
    if seen.state.finished:
        return _ended(s, status, how_it_ended(seen, run, s.now), seen)
    return _alive(s, status, run, seen)


def _is_interruptible(seen: Run | None) -> bool:
    """Whether a run has changed nothing so far: it has yet to begin, or reports that."""
    if seen is None or seen.state is RunState.CREATED:
        return True
    return seen.outputs.get(INTERRUPTIBLE) == "true"


def _absent(s: Situation, status: TaskStatus, run: TaskRun) -> Decision:
    overdue = _is_overdue(run, s.now)
    cancelled = s.is_cancelled(run)
    revoked = _is_revoked(s, run) or _is_withdrawn(s, run)
    over = overdue or cancelled or run.superseded or s.superseded or revoked
    if run.state is TaskState.CREATING and not over:
        if s.paused or s.held:
            return Decision(status=status, requeue=_until(s, run.deadline))
        if s.hold is not None and is_held_change(s, status):
            status.waiting = held_waiting(status.waiting, s.hold, s.now)
            return Decision(status=status, requeue=_until(s, run.deadline))
        return Decision(status=status, start=True, holds=True)
    outcome, message = TaskOutcome.LOST, "It was deleted, or it never came to be."
    if run.state is TaskState.CREATING and cancelled:
        outcome, message = TaskOutcome.CANCELLED, "It was not started."
    elif run.state is TaskState.CREATING and s.superseded:
        outcome, message = TaskOutcome.CANCELLED, "It was not started: another version is wanted."
    elif run.state is TaskState.CREATING and _is_revoked(s, run):
        outcome, message = TaskOutcome.CANCELLED, "It was not started: what was made stays."
    elif run.state is TaskState.CREATING and _is_withdrawn(s, run):
        outcome, message = TaskOutcome.CANCELLED, "It was not started: its plan is not approved."
    elif run.superseded and (run.state is TaskState.CREATING or _cancels(s)):
        outcome, message = TaskOutcome.CANCELLED, "Newer inputs made it superfluous."
    elif is_interrupted(run, s.now):
        outcome, message = TaskOutcome.CANCELLED, "It was interrupted, and did not end by itself."
    elif overdue:
        outcome = TaskOutcome.TIMED_OUT
        message = f"It was given up at its deadline. {failure_of(status)}".rstrip()
    status.waiting = None
    return _ended(s, status, End(outcome=outcome, message=message, finished_at=s.now), None)


def _is_revoked(s: Situation, run: TaskRun) -> bool:
    """Return whether a run would tear down what may not be torn down any more."""
    return run.operation is TaskOperation.TEARDOWN and s.leaving is not Leaving.TEAR_DOWN


def _is_withdrawn(s: Situation, run: TaskRun) -> bool:
    """Return whether a run would apply a plan whose approval was taken back."""
    approved = run.plan_decision is PlanDecision.APPROVED
    return approved and s.decision is not PlanDecision.APPROVED


def refuse(s: Situation, why: str) -> Decision:
    """Return the provider will not start the recorded run, now or later."""
    status, _ = _copy(s)
    status.waiting = None
    end = End(outcome=TaskOutcome.REJECTED, message=why, finished_at=s.now)
    return _ended(s, status, end, None)


def not_kept(s: Situation, why: str) -> Decision:
    """Decide on a run that has ended and whose outputs cannot be kept: it counts as under way until they are."""
    status, run = _copy(s)
    run.message = why
    return Decision(status=status, holds=True, requeue=s.pace.poll_most)


def _ended(s: Situation, status: TaskStatus, end: End, seen: Run | None) -> Decision:
    steps = finish(status, end, s.now)
    run = status.run
    if run is None:
        return Decision(status=status)
    secrets = None
    outputs = {} if seen is None else seen.outputs
    record_lock(status, run, outputs)
    record_reported(status, outputs)
    if s.definition.guards_changes and run.operation not in CHECKS:
        record_traces(status, run, outputs, built=was_built(status))
    run.hold = outputs.get(HOLD, "") if end.outcome is TaskOutcome.REJECTED else ""
    run.retry_at = next_attempt_time(s, status, run)
    if end.outcome is TaskOutcome.REJECTED:
        status.plan = None  # no other attempt takes it up
    if end.outcome is TaskOutcome.SUCCEEDED and seen is not None:
        secrets = _succeeded(s, status, run, seen)
    _adopt_content(s, status)
    status.waiting = _plan_waiting(replace(s, status=status))
    return Decision(
        status=status,
        steps=steps,
        discard=[run.run_id] if seen is None else [],
        ended=run,
        secret_outputs=secrets,
        requeue=_after(s, status),
    )


def _succeeded(
    s: Situation, status: TaskStatus, run: TaskRun, seen: Run
) -> Mapping[str, str] | None:
    """Record what a successful run did. Returns the outputs to keep that must not be seen; None: none."""
    found, made = seen.outputs.get(DRIFT), plan_of(seen.outputs)
    if run.operation is TaskOperation.TEARDOWN:
        return None
    if run.operation is TaskOperation.PLAN:
        looked = is_carried_out(s.status, s.inputs)
        made = None if looked else made or NOTHING_TO_CHANGE
    if made is not None:
        record_plan(status, made, s.owner.uid, s.now)
        return None
    status.plan = None
    if run.operation is TaskOperation.PLAN or (
        run.operation is TaskOperation.REPAIR and found is not None
    ):
        record_check(status, found or "", s.instance, s.now, only_plans=s.plans.only)
        return None
    succeed(status, seen, s.now)
    forget_drift(status)
    return seen.secret_outputs


def _alive(s: Situation, status: TaskStatus, run: TaskRun, seen: Run) -> Decision:
    created = seen.state is RunState.CREATED
    age = s.now - (run.created_at or s.now)
    if created and run.state is TaskState.CREATING and age.total_seconds() < s.pace.settle:
        steps = []
        requeue = s.pace.settle - age.total_seconds()
    else:
        steps = advance(
            status, TaskState.CREATED if created else TaskState.STARTED, s.now, seen=seen
        )
        _record_progress(s, run, seen, beside=bool(steps))
        record_reported(status, seen.outputs)
        requeue = _next_look(s, run)
        if created and seen.message != run.message:
            requeue = min(requeue, s.pace.progress)
    cancel, delete = _end_it(s, run)
    return Decision(
        status=status,
        steps=steps,
        cancel=cancel,
        delete=delete,
        holds=True,
        requeue=min(requeue, _poll(s, run)) if cancel or delete else requeue,
    )


def _record_progress(s: Situation, run: TaskRun, seen: Run, *, beside: bool) -> None:
    """Record what the run reports, with another write or when the last message is old enough.

    What kept it from beginning is no news once it has begun.
    """
    if seen.message == run.message or not (seen.message or beside):
        return
    age = None if run.message_at is None else (s.now - run.message_at).total_seconds()
    if beside or age is None or not 0 <= age < s.pace.progress:
        run.message, run.message_at = seen.message, s.now


def _end_it(s: Situation, run: TaskRun) -> tuple[list[str], list[str]]:
    """Return the runs to cancel and to delete: none, or this one."""
    before = s.now - timedelta(seconds=s.pace.grace)
    if _is_overdue(run, before) or is_interrupted(run, before):
        return [], [run.run_id]
    if _is_overdue(run, s.now) or is_interrupted(run, s.now):
        return [run.run_id], []
    return [], []


def _cancels(s: Situation) -> bool:
    return s.definition.supersede is Supersede.CANCEL


# -- none is ------------------------------------------------------------------------------------


def rest(s: Situation, until: datetime | None) -> Decision:
    """No run is to be started now."""
    status = s.status.model_copy(deep=True)
    status.waiting = _plan_waiting(s)
    _adopt_content(s, status)
    if status.run is not None:
        status.run.retry_at = next_attempt_time(s, status, status.run)
    if s.retry_asked and not (s.paused or s.held):
        status.last_handled_retry = s.retry
    return Decision(status=status, requeue=_until(s, until))


def _plan_waiting(s: Situation) -> TaskWaiting | None:
    plan = s.undecided_plan
    if plan is None:
        return None
    return plan_waiting(s.status.waiting, plan, plan_message(plan, s.plans, s.instance), s.now)


def deny(s: Situation, denied: Denial) -> Decision:
    """Return a run should be started, and may not yet."""
    status = s.status.model_copy(deep=True)
    steps = []
    first = next(iter(status.task_conditions), None)
    version = s.inputs.version
    told = first is not None and (first.type, first.inputs_version) == (TaskState.PENDING, version)
    status.waiting = refreshed(status.waiting, denied.waiting, s.now, s.pace.waiting)
    if not told and not is_live(status.run):
        message = waiting_message(s.definition.name, status.waiting)
        steps = note(status, [TaskState.PENDING], version, s.now, message=message)
    look = next_look(status.waiting, s.now, s.pace.waiting)
    again = look if denied.again is None else min(look, max(s.pace.at_once, denied.again))
    return Decision(status=status, steps=steps, requeue=again)


def hold_back(s: Situation, hold: Waiting) -> Decision:
    """Decide on the next run while a freeze or a window holds changes."""
    status = s.status.model_copy(deep=True)
    status.waiting = held_waiting(status.waiting, hold, s.now)
    return Decision(status=status, requeue=_until(s, hold.until))


def begin(s: Situation, wanted: Identity, found: Sequence[Run], traceparent: str = "") -> Decision:
    """Record the intent of a run that was granted. `found` are all runs of the object that there are.

    Whatever is recorded, a run that is under way counts, and none is started
    beside it.
    """
    adopted = _adoptable(s, wanted, found)
    status = s.status.model_copy(deep=True)
    queued = status.waiting is not None
    status.waiting = None
    taken_up = s.open_plan if s.decision is not None or not s.retry_asked else None
    status.plan = taken_up
    status.last_handled_retry = s.retry or status.last_handled_retry
    status.last_handled_reconcile = s.reconcile or status.last_handled_reconcile
    run = adopted if adopted is not None else _intent(s, wanted, traceparent, taken_up)
    replace_run(status, run, history=s.definition.history)
    live, old = _beside(status, found)
    made: Sequence[TaskCondition] = ()
    if adopted is None:
        first = [] if queued else [TaskState.PENDING]
        steps = [*first, TaskState.CREATING]
        made = note(status, steps, wanted.inputs_version, s.now, attempt=wanted.attempt)
    return Decision(
        status=status,
        steps=made,
        cancel=live,
        delete=old,
        start=adopted is None,
        holds=True,
        requeue=s.pace.at_once if adopted is not None else _next_look(s, run),
    )


def resume(s: Situation, found: Sequence[Run]) -> Decision:
    """Start a run that was granted, whose intent is on record already, and that is not there.

    The same holds for runs beside it as for a new one.
    """
    status, run = _copy(s)
    status.waiting = None
    others = [item for item in found if not item.state.finished]
    if others:
        taken = _adoptable(s, Identity.of(s.owner, run), others)
        if taken is not None:
            status.run = taken
    live, old = _beside(status, found)
    return Decision(
        status=status,
        cancel=live,
        delete=old,
        start=not others,
        holds=True,
        requeue=s.pace.at_once,
    )


def _beside(status: TaskStatus, found: Sequence[Run]) -> tuple[list[str], list[str]]:
    """Of all runs of an object, those under way without a record, and those that ended without."""
    known = {item.run_id for item in (status.run, *status.history) if item is not None}
    strange = [item for item in found if item.run_id not in known]
    return (
        [item.run_id for item in strange if not item.state.finished],
        [item.run_id for item in strange if item.state.finished],
    )


def _intent(
    s: Situation, wanted: Identity, traceparent: str, taken_up: PlannedChange | None
) -> TaskRun:
    return TaskRun(
        run_id=wanted.run_id(s.definition.name),
        inputs_version=wanted.inputs_version,
        inputs_hash=s.inputs.hash,
        attempt=wanted.attempt,
        slot=wanted.slot,
        operation=wanted.operation,
        state=TaskState.CREATING,
        created_at=s.now,
        deadline=s.deadline(s.now),
        traceparent=traceparent,
        plan_digest="" if taken_up is None else taken_up.digest,
        plan_decision=None if taken_up is None else s.decision,
    )


def _adoptable(s: Situation, wanted: Identity, found: Sequence[Run]) -> TaskRun | None:
    """Return an unrecorded run: under way, or an attempt at the current inputs that has ended."""
    if not found:
        return None
    first = s.first_attempt()
    known = {item.run_id(s.definition.name): item for item in first.following(SEARCHED)}
    live = [run for run in found if not run.state.finished]
    if live:
        chosen = next((run for run in reversed(live) if run.run_id in known), live[-1])
        return _found(s, chosen, known.get(chosen.run_id))
    ahead = [
        run
        for run in found
        if run.run_id in known and known[run.run_id].attempt >= wanted.attempt and _is_news(s, run)
    ]
    if not ahead:
        return None
    last = max(ahead, key=lambda run: known[run.run_id].attempt)
    return _found(s, last, known[last.run_id])


def _is_news(s: Situation, run: Run) -> bool:
    """Whether an ended run is later than the last one recorded."""
    last = s.status.run
    if last is None or last.created_at is None or run.created_at is None:
        return last is None
    return run.created_at > last.created_at


def _found(s: Situation, run: Run, identity: Identity | None) -> TaskRun:
    since = min(run.created_at or s.now, s.now)
    record = TaskRun(
        run_id=run.run_id,
        inputs_version="" if identity is None else identity.inputs_version,
        inputs_hash="" if identity is None else s.inputs.hash,
        state=TaskState.CREATING,
        created_at=since,
        deadline=s.deadline(since),
        superseded=identity is None,
    )
    if identity is not None:
        record.attempt, record.slot = identity.attempt, identity.slot
        record.operation = identity.operation
    return record


def clean_up(s: Situation, found: Sequence[Run]) -> Decision:
    """Delete all runs of an object that goes; once there are none, let it go."""
    status = s.status.model_copy(deep=True)
    status.waiting = None
    return Decision(
        status=status,
        delete=[run.run_id for run in found],
        let_go=not found,
        requeue=s.pace.deleting if found else None,
    )


# -- in common ----------------------------------------------------------------------------------


def _copy(s: Situation) -> tuple[TaskStatus, TaskRun]:
    status = s.status.model_copy(deep=True)
    if status.run is None:
        raise ValueError("no run is recorded")
    return status, status.run


def _adopt_content(s: Situation, status: TaskStatus) -> None:
    """Record newer inputs whose content is carried out already."""
    done = status.succeeded
    if done is None or s.deleting or s.definition.once or done.inputs_version == s.inputs.version:
        return
    last = status.run
    if is_current(done, s.inputs) and (last is None or last.run_id == done.run_id):
        done.inputs_version = s.inputs.version


def _after(s: Situation, status: TaskStatus) -> float | None:
    """Seconds until there is something to do, once a run has ended."""
    s = replace(s, status=status)  # what was carried out decides whether a schedule follows
    then = next_run(s, status)
    if isinstance(then, Rest):
        return s.pace.at_once if s.retry_asked or s.reconcile_asked else _until(s, then.until)
    return s.pace.at_once


def _is_overdue(run: TaskRun, now: datetime) -> bool:
    return run.deadline is not None and now >= run.deadline


def _until(s: Situation, moment: datetime | None) -> float | None:
    if moment is None:
        return None
    return max(s.pace.at_once, (moment - s.now).total_seconds())


def _poll(s: Situation, run: TaskRun) -> float:
    age = (s.now - (run.created_at or s.now)).total_seconds()
    return min(s.pace.poll_most, max(s.pace.poll_least, age / 10))


def _next_look(s: Situation, run: TaskRun) -> float:
    """Seconds until the run is looked at again, whatever its provider tells."""
    if _is_overdue(run, s.now) or is_interrupted(run, s.now):
        return _poll(s, run)
    left = _until(s, run.deadline or s.deadline(s.now))
    wait = s.pace.settle if run.state is TaskState.CREATING else left
    if not s.told:
        wait = _poll(s, run)
    interrupt = _until(s, run.interrupt_at)
    return min(item for item in (left, wait, interrupt) if item is not None)
