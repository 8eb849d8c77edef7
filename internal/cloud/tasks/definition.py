"""What a driver has to know of a task, apart from the work."""

from dataclasses import dataclass, field
from enum import StrEnum

from ctrlruntime.backoff import exponential


class Supersede(StrEnum):
    """What becomes of a run when newer inputs arrive."""

    AWAIT = "Await"
    """It ends by itself; then the newer inputs are carried out."""
    CANCEL = "Cancel"
    """It is cancelled; once it has ended, the newer inputs are carried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often and when a failed run is tried again."""

    limit: int = 5
    """Attempts for one set of inputs, the first included; 0 is without limit."""
    base: float = 30.0
    """Seconds before the second attempt; doubled for each one after."""
    cap: float = 3600.0
    """Most seconds between two attempts."""

    def delay(self, attempt: int) -> float:
        """Seconds between the end of this attempt (1 is the first) and the next."""
        return exponential(self.base, self.cap, attempt - 1)

    def exhausted(self, attempt: int) -> bool:
        """Whether no attempt follows this one."""
        return 0 < self.limit <= attempt


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency:
    """How many runs of a type there may be."""

    limit: int = 0
    """Runs at once; 0 is without limit."""
    starts_per_minute: int = 0
    """Starts in any 60 seconds; 0 is without limit."""
    exclusive: bool = True
    """Never while another exclusive task of the same instance runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskDefinition:
    """A type of task, as a driver sees it."""

    name: str
    """The name: prefix of its run ids, and the argument of `manager task run`."""
    timeout: float = 3600.0
    """Seconds that a run may take."""
    retries: Retries = field(default_factory=Retries)
    supersede: Supersede = Supersede.AWAIT
    concurrency: Concurrency = field(default_factory=Concurrency)
    period: float | None = None
    """Seconds after which it is run again with the same inputs; None: only when they change."""
    teardown: bool = False
    """Whether a run has to undo what was made before the object may go."""
    once: bool = False
    """Carried out once in the object's life, whatever becomes of its inputs."""
    history: int = 5
    """Runs that are kept after they ended."""
