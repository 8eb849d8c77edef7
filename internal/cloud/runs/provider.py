"""What a run is, and the protocol of those who execute runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from apis.cloud import PlanApproval, PlanDecision, TaskOperation
from apis.references import SecretKeyRef
from internal.cloud.keys import instance_key

RunName = str
"""`<task>-<12 hex>`: follows from the identity of a run, so that starting it twice is starting it
once. Usable as name of a Kubernetes object."""


class RunState(StrEnum):
    """How far a run is, as its provider sees it."""

    CREATED = "Created"
    """It exists and has not begun."""
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    """Ended without success; `Run.retryable`: whether a retry makes sense."""
    TIMED_OUT = "TimedOut"
    CANCELLED = "Cancelled"

    @property
    def finished(self) -> bool:
        """Whether nothing more happens."""
        return self not in (RunState.CREATED, RunState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOwner:
    """The object that drives a run."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierPlan:
    """A plan that an earlier run of the same object made and did not apply."""

    run_id: RunName
    """The run that made it."""
    content: str
    """What identifies the plan where it was made."""
    summary: str
    """What it changes, for people."""
    decision: PlanDecision | None = None
    """What a person decided; None: nothing yet, so it is only looked at again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInput:
    """The input of a task. Serialised as JSON, the same for every provider; holds no secret."""

    task: str
    run_id: RunName
    inputs_version: str
    attempt: int
    slot: str
    operation: TaskOperation
    owner: RunOwner
    instance: str
    """Name of the instance."""
    instance_uid: str = ""
    """UID of the instance; empty if it is not known."""
    protected: bool = True
    """Whether the instance is protected from deletion: then a task destroys nothing by itself."""
    spec: Mapping[str, Any]
    """The spec of the object, as on the wire."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """The annotations that count."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """Outputs of the last successful run of the same object."""
    built: bool = False
    """Whether anything shows that a run of the object succeeded before: its status, its Secret of outputs, its runs."""
    record: Mapping[str, str] = field(default_factory=dict)
    """What identifies what the last successful run left behind; empty if that is not known."""
    config_maps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Texts of the ConfigMaps that the task may read, by name and key, as they were at its start."""
    traceparent: str = ""
    """Trace in which it was started (W3C Trace Context); empty without one."""
    approval: PlanApproval = PlanApproval.AUTOMATIC
    """Which plans wait for an approval."""
    plan: EarlierPlan | None = None
    """The plan that waits; None: there is none."""
    unlock: str = ""
    """Id of an orphaned lock of the state, which is given back before anything else; empty: there is none."""
    data_plane: str = ""
    """Id of the data plane that the owner is on, where no task may run containers; empty: it is on none."""

    @property
    def key(self) -> str:
        """What stands for the instance in names that are shared over namespaces."""
        return instance_key(self.owner.namespace, self.instance)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """A run to be started."""

    run_id: RunName
    input: RunInput
    timeout: float
    """Seconds after which the provider ends it."""
    secrets: Sequence[SecretKeyRef] = ()
    """Keys of Secrets in the owner's namespace that the task may read, as files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run as its provider sees it."""

    run_id: RunName
    state: RunState
    created_at: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    message: str = ""
    """The last words of the task; for a failure, the cause."""
    retryable: bool = True
    """Of a failure: whether another attempt may succeed."""
    lost: bool = False
    """Of a failure: whether its Pod or node was lost, so that its inputs are not the cause."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    secret_outputs: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Outputs that must not be seen; the driver keeps them in a Secret."""
    record: Mapping[str, str] = field(default_factory=dict)
    """What identifies what the task left behind."""
    logs: str = ""
    """Where the logs are: a command to type, a path or an address."""


class ProviderError(Exception):
    """A request that a provider outside the cluster refused, or did not answer: then it may have been carried out."""


class RunRefused(Exception):
    """The provider will not start this run, now or later: the message gives the reason and the remedy."""


@runtime_checkable
class RunProvider(Protocol):
    """Executes runs. Every call may be repeated, and may be made by another process after a crash.

    Calls raise ProviderError, OSError or the errors of the client when the outcome is unknown, or the request is
    refused for now: the caller shows that on the object, in the words of the error, and repeats them.
    """

    async def start(self, request: RunRequest) -> Run:
        """Start the run, or answer the one of that id that is already there, whatever its state.

        Never starts a second run of one id, even if called twice at once or after a lost reply.
        Raises :class:`RunRefused`.
        """
        ...

    async def get(self, owner: RunOwner, run_id: RunName) -> Run | None:
        """Return the run; None if there is none of that id (it was deleted, or was never started)."""
        ...

    async def list(self, owner: RunOwner) -> Sequence[Run]:
        """All runs of the owner, finished ones included, oldest first."""
        ...

    async def cancel(self, owner: RunOwner, run_id: RunName) -> None:
        """Request the end of the run. It is over when `get` reports it. A run that ended or is gone is left."""
        ...

    async def delete(self, owner: RunOwner, run_id: RunName) -> None:
        """Delete the run, its inputs and outputs, ending it first. A run that is gone is no error.

        It is gone when `get` reports it: until then it is listed, and may still be ending.
        """
        ...

    def subscribe(self, changed: Callable[[RunOwner], None]) -> bool:
        """Call `changed` when a run of an owner changes.

        False: nothing is reported, so poll from time to time.
        """
        ...

    async def aclose(self) -> None:
        """Give back connections. Runs go on."""
        ...
