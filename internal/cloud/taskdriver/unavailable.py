"""What the provider of runs refuses or does not answer, shown on the object that needs it in the words of the error."""

from collections.abc import Awaitable
from typing import Final, TypeVar

from apis.cloud import Phase, TaskState, TaskStatus
from ctrlruntime.api import find_condition, set_condition
from ctrlruntime.client.errors import APIError, Conflict, TooManyRequests
from internal.cloud.runs import ProviderError
from internal.cloud.taskdriver.context import Situation
from internal.cloud.taskdriver.inputs import READY
from internal.cloud.taskdriver.record import is_live

T = TypeVar("T")

PROVIDER_FAILED: Final = "ProviderFailed"
"""Reason of the condition Ready, and of an event: the provider of runs refused a request, or did not answer."""
_SERVER_ERROR: Final = 500


class Unavailable(Exception):
    """A request to the provider failed and is repeated."""

    def __init__(self, what: str, cause: Exception) -> None:
        super().__init__(f"{what}: {cause}")
        self.what = what
        self.cause = cause


async def provided(what: str, call: Awaitable[T]) -> T:
    """Return what the provider answers. Raises Unavailable for a failure that a status has to show.

    An API server that is busy or fails is the one that statuses are written to: such errors are raised as they are.
    """
    try:
        return await call
    except (ProviderError, OSError) as error:
        raise Unavailable(what, error) from error
    except APIError as error:
        if isinstance(error, Conflict | TooManyRequests) or error.code >= _SERVER_ERROR:
            raise
        raise Unavailable(what, error) from error


def record_unavailable(s: Situation, status: TaskStatus, error: Unavailable) -> None:
    """Put the failure into a status that is summarized already, in place.

    A run that is recorded and does not exist is not at work. What is ready stays ready: nothing is known against it.
    """
    run, words = status.run, str(error.cause).rstrip(".")
    ready = find_condition(status.conditions, READY)
    is_ready = ready is not None and ready.status == "True"
    if error.what == "delete":
        text = f"Its runs cannot be deleted: {words}."
    elif run is None or not is_live(run):
        text = f"No run can be started: {words}."
    else:
        failed = "started" if error.what == "start" else "looked at"
        text = f"Run {run.run_id} cannot be {failed}: {words}."
    if s.deleting:
        text = f"Being deleted. {text}"
    elif is_ready and not is_live(run):
        text = f"{status.message.rstrip('.')}. {text}"
    elif run is None or not is_live(run) or run.state is TaskState.CREATING:
        status.phase = Phase.PENDING
    status.message = text
    if ready is not None:
        reason = ready.reason if is_ready else PROVIDER_FAILED
        changed = ready.model_copy(update={"reason": reason, "message": text})
        set_condition(status.conditions, changed, s.now)


def keep_failure(s: Situation, status: TaskStatus) -> None:
    """Leave the failure of the pass before in a status that is summarized already, in place."""
    failure, ready = failure_of(s.status), find_condition(status.conditions, READY)
    if failure and ready is not None:
        status.message = failure
        changed = ready.model_copy(update={"reason": PROVIDER_FAILED, "message": failure})
        set_condition(status.conditions, changed, s.now)


def next_try(s: Situation, status: TaskStatus) -> float:
    """Seconds until the request is repeated: a tenth of the time for which the object has waited."""
    run, ready = status.run, find_condition(status.conditions, READY)
    since = None if ready is None else ready.last_transition_time
    if run is not None and is_live(run):
        since = run.created_at
    age = (s.now - (since or s.now)).total_seconds()
    return min(s.pace.poll_most, max(s.pace.poll_least, age / 10))


def failure_of(status: TaskStatus) -> str:
    """Return the failure that a status shows; empty: none."""
    ready = find_condition(status.conditions, READY)
    return "" if ready is None or ready.reason != PROVIDER_FAILED else ready.message
