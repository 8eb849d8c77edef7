"""Starts where several managers share Instances: the leader grants them, in the status of what waits.

An object whose run wants to start has `status.waiting`; the leader, whose ledger counts all runs, adds `grantedAt`; the
manager of the object's slot records the run in place of the grant. Each of these is one write under the version of the object that it
rests on, so an object always is one of: nothing, waiting, granted, running. The ledger counts the last two, and a leader that comes
reads them all, so the limits hold whoever leads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from apis.cloud import TaskPriority, Waiting, WaitingReason
from internal.cloud.concurrency.checker import Claim, Denial, Granted, Verdict
from internal.cloud.runs import RunOwner

QUEUED: Final = frozenset(
    {
        WaitingReason.TURN,
        WaitingReason.LIMIT,
        WaitingReason.RATE,
        WaitingReason.INSTANCE_BUSY,
    }
)
"""What a start waits for, as opposed to a change that people hold."""


def is_requested(waiting: Waiting | None) -> bool:
    """Whether an object waits for a place, granted or not."""
    return waiting is not None and waiting.reason in QUEUED


def is_passing(waiting: Waiting) -> bool:
    """Whether a start was requested of the leader only now, or is granted."""
    return waiting.reason is WaitingReason.TURN or waiting.granted_at is not None


@dataclass(frozen=True, slots=True)
class GrantsInStatus:
    """A :class:`ConcurrencyChecker` of a manager that starts only what the leader granted. It keeps nothing."""

    def acquire(self, claim: Claim) -> Verdict:
        """Granted is what has a grant on record, or a run that took its place; all else requests one by its status."""
        found = claim.recorded
        if claim.live or (found is not None and found.granted_at is not None):
            return Granted()
        priority = None if claim.priority is TaskPriority.NORMAL else claim.priority
        if found is None or not is_requested(found):
            return Denial(Waiting(reason=WaitingReason.TURN, priority=priority, since=claim.since))
        return Denial(found.model_copy(update={"priority": priority}))

    def hold(self, claim: Claim) -> None:
        """Do nothing: the leader counts what the status has."""

    def release(self, owner: RunOwner) -> None:
        """Do nothing: the leader counts what the status has."""
