"""Which run should be under way, and when one is cancelled: what is recorded of the current inputs. Pure."""

from dataclasses import replace
from datetime import datetime, timedelta

from apis.cloud import (
    PlanApproval,
    PlanDecision,
    PlannedChange,
    TaskOperation,
    TaskOutcome,
    TaskRun,
    TaskStatus,
    TaskSuccess,
)
from ctrlruntime.api import format_time
from internal.cloud.labels import PAUSED
from internal.cloud.taskdriver.context import CleanUp, Leaving, Next, Rest, Situation, Wanted
from internal.cloud.taskdriver.inputs import is_carried_out, is_fulfilled
from internal.cloud.taskdriver.record import Identity, covers, last_attempt, retry_time, tries_of
from internal.cloud.tasks.task import Supersede


def next_run(s: Situation, status: TaskStatus, *, made_something: bool = False) -> Next:
    """Return what should be under way, of an object that has no run under way.

    `made_something`: there are runs of the object, whatever is recorded.
    """
    if s.deleting and not needs_teardown(s, status, made_something=made_something):
        return CleanUp()
    stopped = s.superseded or s.held is not None
    if s.paused or (stopped and not s.deleting) or (s.deleting and s.leaving is Leaving.HOLD):
        return Rest()
    if s.open_plan is not None:
        return _after_plan(s, status, s.open_plan)
    if not s.deleting and is_done(s, status) and not s.reconcile_asked:
        due = repair_time(s, status)
        if due is None or due > s.now:
            return Rest(_earliest(due, None if s.slot is None else s.slot.end))
    identity = _next_identity(s, status)
    last = status.run
    if last is None or not identity.continues(last) or last.outcome is TaskOutcome.SUCCEEDED:
        return Wanted(identity)
    return _again(s, status, last, identity)


def _next_identity(s: Situation, status: TaskStatus) -> Identity:
    identity = s.first_attempt()
    return replace(identity, attempt=last_attempt(status, identity) + 1)


def _after_plan(s: Situation, status: TaskStatus, plan: PlannedChange) -> Next:
    """After a run that ended with a plan: carry out what was decided, or look from time to time whether it still stands."""
    identity, last = _next_identity(s, status), status.run
    failed = last is not None and last.outcome is not TaskOutcome.SUCCEEDED
    if last is not None and failed and last.plan_decision == s.decision:
        return _again(s, status, last, identity)
    if s.decision is not None or s.retry_asked:
        return Wanted(identity)
    if plan.operation is TaskOperation.PLAN:
        return Rest()
    look = plan.checked_at + timedelta(seconds=s.pace.plan_check)
    return Wanted(identity) if look <= s.now else Rest(look)


def _again(s: Situation, status: TaskStatus, last: TaskRun, identity: Identity) -> Next:
    """After an attempt at the same thing that did not succeed."""
    if s.retry_asked or s.reconcile_asked:
        return Wanted(identity)
    due = next_attempt_time(s, status, last)
    slot_end = None if s.slot is None else s.slot.end
    if due is None:
        return Rest(slot_end)
    if due <= s.now or due - s.now > timedelta(seconds=s.definition.retries.cap):
        return Wanted(identity)  # farther off than any delay: the record is wrong
    return Rest(_earliest(due, slot_end))


def next_attempt_time(s: Situation, status: TaskStatus, last: TaskRun) -> datetime | None:
    """Return when the next attempt is scheduled after a run that ended; None if none follows by itself."""
    if s.is_cancelled(last):
        return None
    return retry_time(last, s.definition.retries, tries_of(last, status))


def repair_time(s: Situation, status: TaskStatus) -> datetime | None:
    """Return when a run repairs what differs from what the last one left; None if nothing does.

    The wait after the last run doubles with each run of the same inputs, as after a failure: what another
    writer changes again and again is not repaired in a loop.
    """
    last = status.run
    if not s.drift or s.definition.once:
        return None
    if last is None or last.finished_at is None:
        return s.now
    return last.finished_at + timedelta(seconds=s.definition.retries.delay(last.attempt))


def _earliest(*moments: datetime | None) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)


def is_done(s: Situation, status: TaskStatus) -> bool:
    """Whether the current inputs are carried out, in the current slot, and no later run of them failed."""
    done = status.succeeded
    if done is None:
        return False
    if s.definition.once:
        return True
    in_slot = s.slot is None or covers(done.slot, s.slot) or _is_later(s, done)
    return in_slot and is_fulfilled(status, s.inputs, once=False)


def _is_later(s: Situation, done: TaskSuccess) -> bool:
    """Whether what was applied was applied after the time that drift was to be looked for."""
    checks = s.drift_check is not None and s.slot is not None
    return checks and s.slot is not None and format_time(done.finished_at) >= s.slot.name


def is_held_change(s: Situation, status: TaskStatus) -> bool:
    """Whether the next run would change or destroy something while a freeze or a window holds that.

    A run of unchanged inputs does not wait unless it repairs infrastructure, nor one for an instance that was never deployed.
    """
    if s.hold is None:
        return False
    if s.deleting:
        return True
    if s.open_plan is not None:
        return s.deployed and s.decision is PlanDecision.APPROVED
    if s.plans.only or s.plans.approval is PlanApproval.MANUAL:
        return False  # it only plans
    repairs = s.operation is TaskOperation.REPAIR
    return s.deployed and (s.definition.once or repairs or not is_carried_out(status, s.inputs))


def needs_teardown(s: Situation, status: TaskStatus, *, made_something: bool) -> bool:
    """Whether what runs of a leaving object made has to be undone by a run first."""
    if not s.definition.teardown or s.leaving in (Leaving.KEEP, Leaving.RELEASE):
        return False
    last = status.run
    if last is not None and last.operation is TaskOperation.TEARDOWN:
        return last.outcome is not TaskOutcome.SUCCEEDED
    return bool(made_something or last or status.succeeded or status.history)


def is_superseded(s: Situation, run: TaskRun) -> bool:
    """Whether a run under way is no longer what should be under way."""
    if s.deleting:
        return run.operation is not TaskOperation.TEARDOWN
    if s.definition.once and run.inputs_version:
        return False
    if run.inputs_hash and run.inputs_hash == s.inputs.hash:
        return False
    return run.inputs_version != s.inputs.version


def interrupt_time(s: Situation, run: TaskRun, *, interruptible: bool = True) -> datetime | None:
    """Return when the run is cancelled, or None if nothing came that it stands in the way of.

    Newer inputs cancel a task at once if its definition has it; everything else, another version
    among it, leaves the run a grace, counted from when it was first noticed, in which it may end by
    itself. A run whose interrupt may destroy what it makes is awaited by newer inputs unless it is
    `interruptible`: a retry and a deletion, also that of its instance, interrupt it, which a person requests. While the object is paused, or changes are held, a run is awaited. One that a person
    cancelled is cancelled at once, whatever holds the others.
    """
    if s.is_cancelled(run):
        return min(run.interrupt_at or s.now, s.now)
    if s.hold is not None and not s.retry_asked:
        return None  # what would follow it waits
    if run.superseded and s.definition.supersede is Supersede.CANCEL:
        return min(run.interrupt_at or s.now, s.now)
    ending = s.held is not None and s.held.interrupts
    if _is_paused(s) or not (run.superseded or s.superseded or s.retry_asked or ending):
        return None
    requested = s.deleting or s.retry_asked or ending
    if s.definition.guards_changes and not (interruptible or requested):
        return None
    latest = s.now + timedelta(seconds=s.pace.interrupt)
    return min(run.interrupt_at or latest, latest)


def _is_paused(s: Situation) -> bool:
    """Whether a person paused the object: an upgrade gets PAUSED with the mark that it is superseded."""
    return s.paused and not (s.superseded and s.pause == PAUSED)


def is_interrupted(run: TaskRun, now: datetime) -> bool:
    """Whether the run has been cancelled by then, and not for its deadline."""
    return run.interrupt_at is not None and now >= run.interrupt_at
