"""The protocol of those who say whether a run may start."""

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, TypeAlias

from apis.cloud import TaskPriority, Waiting
from internal.cloud.runs import RunOwner
from internal.cloud.tasks.task import Concurrency


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A run that wants to start."""

    task: str
    """Its type."""
    owner: RunOwner
    instance: str
    """Name of the instance, in the owner's namespace."""
    since: datetime
    """Since when it waits: as recorded, so that its place survives a restart."""
    concurrency: Concurrency
    priority: TaskPriority = TaskPriority.NORMAL
    """How early its turn comes."""
    recorded: Waiting | None = None
    """What the status has of its wait."""
    live: bool = False
    """Whether the status has a run under way, whose place was granted."""


@dataclass(frozen=True, slots=True)
class Granted:
    """The run may start. It counts as running until it is released."""


@dataclass(frozen=True, slots=True)
class Denial:
    """Not yet. The owner is woken when its turn comes."""

    waiting: Waiting
    """What to tell people."""
    again: float | None = None
    """Seconds after which to ask again, woken or not; None: whenever the status is looked at."""


Verdict: TypeAlias = Granted | Denial


class ConcurrencyChecker(Protocol):
    """Grants and takes back. Synchronous: a grant and the count it rests on are one step."""

    def acquire(self, claim: Claim) -> Verdict:
        """May the run start now? First come, first served within a priority. Asking again while granted is granted."""
        ...

    def hold(self, claim: Claim) -> None:
        """Count a run of the owner that is under way, whatever the limit is."""
        ...

    def release(self, owner: RunOwner) -> None:
        """Free the place of an owner whose run has ended or which no longer waits, and wake those that may start now."""
        ...
