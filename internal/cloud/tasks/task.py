"""What a task is: what a driver has to know of it, and the protocol of the work itself: input and result."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, Protocol

import structlog

from apis.references import SecretKeyRef
from ctrlruntime.backoff import exponential
from internal.cloud.runs import RunInput

DRIFT: Final = "drift:summary"
"""Output of a run that looked for drift and applied nothing: what differs, empty for nothing. No module's output has
such a name."""
INTERRUPTIBLE: Final = "run:interruptible"
"""What a run under way reports while newer inputs may interrupt it: `true` as long as it has changed nothing."""
LOCK_HOLDER: Final = "lock:holder"
"""What a run reports while it holds the lock of a state that outlives it: the holder as the lock names it."""
LOCK_INFO: Final = "lock:info"
"""What a run reports that was refused for the lock of a state: the lock as JSON."""
DESTROYED: Final = "run:destroyed"
"""What a teardown reports before it removes the record of what it destroyed: `true`."""
POSSIBLY_BUILT: Final = "possiblyBuilt"
"""Of a record: a run that did not succeed may have built something, as no other record shows."""
TORN_DOWN: Final = "tornDown"
"""Of a record: a teardown destroyed everything, and may have removed the state as well."""
VERSION: Final = "version"
"""Of a record: the version that a run was about to roll out, reported before its first write."""
RECORDED: Final = "record:"
"""Begin of the names under which a run reports, before it changes anything, what its record has to have however it ends."""
HOLD: Final = "run:hold"
"""What a run reports that changed nothing since a person has to decide: the reason, in one word."""


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
    guards_changes: bool = False
    """Whether newer inputs wait for a run, unless it reports INTERRUPTIBLE: an interrupt may destroy what it makes.

    One that failed and does not report that may have changed something.
    """
    once: bool = False
    """Carried out once in the object's life, whatever becomes of its inputs."""
    history: int = 5
    """Runs that are kept after they ended."""


class TaskError(Exception):
    """The task did not succeed; another attempt may."""

    outputs: Mapping[str, str] = {}
    """What the report has for the driver; small."""


class TaskRejected(TaskError):
    """The task did not succeed, and will not with the same inputs. The message names the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult:
    """The result of a task that succeeded."""

    message: str = ""
    """One sentence: what was done."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """For other tasks and for people; small."""
    secret_outputs: Mapping[str, str] = field(default_factory=dict, repr=False)
    """For other tasks only."""
    record: Mapping[str, str] = field(default_factory=dict)
    """What identifies what the task left behind, for later runs of it; small."""


class TaskHeld(TaskRejected):
    """Nothing was changed, and nothing will be until a person decides. The message has the command for it."""

    def __init__(self, message: str, reason: str) -> None:
        """`reason`: in one word, for a condition."""
        super().__init__(message)
        self.outputs = {HOLD: reason}


def _no_config_map(name: str) -> Mapping[str, str]:
    raise TaskRejected(f"the ConfigMap {name} was not given to the task")


def _no_secret(name: str) -> Mapping[str, str]:
    raise TaskRejected(f"the Secret {name} was not given to the task")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskContext:
    """What a task is given."""

    input: RunInput
    secret: Callable[[SecretKeyRef], str]
    """The value of a Secret's key that the driver declared. Raises TaskRejected if it is not there."""
    folder: Path
    """An empty folder of its own."""
    log: structlog.stdlib.BoundLogger
    progress: Callable[[str], None]
    """Reports what it is doing; people see the last text while it runs."""
    keep: Callable[[str, str], None] = lambda _name, _value: None
    """Keeps a value in the reports of the run from now on, unless it succeeds; an empty one removes it."""
    config_map: Callable[[str], Mapping[str, str]] = _no_config_map
    """The texts of a ConfigMap that the driver declared, by key. Raises TaskRejected if it is not
    there."""
    secret_keys: Callable[[str], Mapping[str, str]] = field(default=_no_secret, repr=False)
    """Every value of a Secret that the driver declared as a whole, by key. Raises TaskRejected if it is
    not there."""


class Task(Protocol):
    """The work of one type of task. Every attempt may find what earlier ones left half-done."""

    name: str

    async def run(self, context: TaskContext) -> TaskResult:
        """Do it. Raises TaskError or TaskRejected; any other error counts as TaskError.

        Cancelled (asyncio) when the run is: then it stops what it has begun, as far as it can.
        """
        ...
