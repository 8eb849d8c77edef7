"""Whether a run is due: what the record says of the current inputs. Pure."""

from dataclasses import replace
from datetime import datetime, timedelta

from apis.cloud import TaskOperation, TaskOutcome, TaskRun, TaskStatus, TaskSuccess
from internal.cloud.taskdriver.identity import Identity
from internal.cloud.taskdriver.inputs import Inputs
from internal.cloud.taskdriver.periods import covers
from internal.cloud.taskdriver.record import last_attempt, retry_time, tries_of
from internal.cloud.taskdriver.situation import (
    CleanUp,
    Leaving,
    Next,
    Rest,
    Situation,
    Wanted,
)


def next_run(s: Situation, status: TaskStatus, *, made_something: bool = False) -> Next:
    """What should be under way, of an object that has no run under way.

    `made_something`: there are runs of the object, whatever the record says.
    """
    if s.deleting and not needs_teardown(s, status, made_something=made_something):
        return CleanUp()
    if s.paused or (s.held and not s.deleting) or (s.deleting and s.leaving is Leaving.HOLD):
        return Rest()
    if not s.deleting and is_done(s, status):
        return Rest(None if s.slot is None else s.slot.end)
    identity = s.first_attempt()
    identity = replace(identity, attempt=last_attempt(status, identity) + 1)
    last = status.run
    if last is None or not identity.continues(last) or last.outcome is TaskOutcome.SUCCEEDED:
        return Wanted(identity)
    return _again(s, status, last, identity)


def _again(s: Situation, status: TaskStatus, last: TaskRun, identity: Identity) -> Next:
    """After an attempt at the same thing that did not succeed."""
    if s.retry_asked:
        return Wanted(identity)
    due = retry_time(last, s.definition.retries, tries_of(last, status))
    slot_end = None if s.slot is None else s.slot.end
    if due is None:
        return Rest(slot_end)
    if due <= s.now or due - s.now > timedelta(seconds=s.definition.retries.cap):
        return Wanted(identity)  # farther off than any delay: the record is wrong
    return Rest(_earlier(due, slot_end))


def _earlier(one: datetime, other: datetime | None) -> datetime:
    return one if other is None else min(one, other)


def is_done(s: Situation, status: TaskStatus) -> bool:
    """Whether the current inputs are carried out, in the current slot."""
    done = status.succeeded
    if done is None:
        return False
    if s.definition.once:
        return True
    if not is_current(done, s.inputs) or _was_undone(status, done):
        return False
    return s.slot is None or covers(done.slot, s.slot)


def is_current(done: TaskSuccess, inputs: Inputs) -> bool:
    """Whether what was carried out is what is asked for: the same inputs, or the same content."""
    return done.inputs_version == inputs.version or (
        bool(done.inputs_hash) and done.inputs_hash == inputs.hash
    )


def _was_undone(status: TaskStatus, done: TaskSuccess) -> bool:
    """Whether a later run for other inputs may have changed what was carried out."""
    last = status.run
    if last is None or last.run_id == done.run_id:
        return False
    return last.inputs_version != done.inputs_version


def needs_teardown(s: Situation, status: TaskStatus, *, made_something: bool) -> bool:
    """Whether what runs of a leaving object made has to be undone by a run first."""
    if not s.definition.teardown or s.leaving is Leaving.KEEP:
        return False
    last = status.run
    if last is not None and last.operation is TaskOperation.TEARDOWN:
        return last.outcome is not TaskOutcome.SUCCEEDED
    return bool(made_something or last or status.succeeded or status.history)


def is_superseded(s: Situation, run: TaskRun) -> bool:
    """Whether a run under way is no longer what should be under way."""
    if s.deleting:
        return run.operation is TaskOperation.APPLY
    if s.definition.once and run.inputs_version:
        return False
    if run.inputs_hash and run.inputs_hash == s.inputs.hash:
        return False
    return run.inputs_version != s.inputs.version
