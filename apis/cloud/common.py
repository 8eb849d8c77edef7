"""What the kinds of the group share: the record of task runs, requests over HTTP, hooks."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from apis.approvals import ApprovalsStatus
from apis.references import SecretKeyRef, ServiceAccountName
from ctrlruntime.api import (
    ApiModel,
    Conditions,
    Duration,
    Int32,
    ListMap,
    MicroTime,
    RawExtension,
    exactly_one_of,
)

__all__ = [
    "GROUP",
    "VERSION",
    "Expectation",
    "HTTPRequest",
    "Hook",
    "JobHook",
    "Phase",
    "PlanApproval",
    "PlanDecision",
    "PlannedChange",
    "SecretHeader",
    "TaskCondition",
    "TaskOperation",
    "TaskOutcome",
    "TaskPriority",
    "TaskRun",
    "TaskState",
    "TaskStatus",
    "TaskSuccess",
    "Waiting",
    "WaitingReason",
]

GROUP = "cloud.ctrlruntime.dev"
VERSION = "v1"


JSONValue = Annotated[Any, WithJsonSchema({"x-kubernetes-preserve-unknown-fields": True})]
"""Any JSON value."""


class TaskState(StrEnum):
    """The states of a run, in order."""

    PENDING = "Pending"
    CREATING = "Creating"
    """Intent recorded: the run may or may not exist yet."""
    CREATED = "Created"
    STARTED = "Started"
    DONE = "Done"


class TaskOutcome(StrEnum):
    """How a run ended."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    """The task said so; it is tried again as far as its retries go."""
    REJECTED = "Rejected"
    """The task said that trying again with the same inputs is of no use."""
    TIMED_OUT = "TimedOut"
    LOST = "Lost"
    """The run is gone, and its outcome is unknown."""
    CANCELLED = "Cancelled"
    """Newer inputs made it superfluous, or its object was deleted."""


class TaskOperation(StrEnum):
    """What a run does."""

    APPLY = "Apply"
    TEARDOWN = "Teardown"
    PLAN = "Plan"
    """Find out what differs from what was applied, and change nothing."""
    REPAIR = "Repair"
    """Apply what differs from what was applied, unless that destroys something."""


class PlanApproval(StrEnum):
    """Who decides that a plan is applied."""

    AUTOMATIC = "Automatic"
    """A plan that destroys or replaces something waits for an approval; every other one is applied at once."""
    MANUAL = "Manual"
    """Every plan waits for an approval."""


class PlanDecision(StrEnum):
    """What a person decided about a plan."""

    APPROVED = "Approved"
    REJECTED = "Rejected"


class TaskPriority(StrEnum):
    """How early a run gets a place when others wait too. It interrupts no run and opens no window."""

    LOW = "Low"
    """After every Normal one, except one that began to wait more than 24 hours later."""
    NORMAL = "Normal"
    """In the order in which they began to wait."""
    HIGH = "High"
    """Such as a security patch: before every Normal one, except one that began to wait more than 24 hours earlier."""


class Phase(StrEnum):
    """Where an object stands, in one word."""

    PENDING = "Pending"
    WAITING = "Waiting"
    """For its turn; ``status.waiting`` shows for what."""
    RUNNING = "Running"
    RETRYING = "Retrying"
    """A run failed, and the next starts later."""
    READY = "Ready"
    FAILED = "Failed"
    """Nothing more is tried until the inputs change or a retry is asked for."""
    PAUSED = "Paused"
    SUPERSEDED = "Superseded"
    """An upgrade that another one replaced; no further run is started."""
    EXTRACTED = "Extracted"
    """Taken out of management."""
    DELETING = "Deleting"


class TaskCondition(ApiModel):
    """One step of a run, as it was noticed."""

    type: TaskState
    """The state that was reached."""
    status: Annotated[str, Field(pattern="^(True|False|Unknown)$")] = "True"
    """False for a run that ended without success."""
    reason: str = ""
    """One word for what happened."""
    message: str = ""
    """What happened, for people."""
    inputs_version: str = ""
    """The inputs: generation and hash of the annotations that count."""
    run_id: str = Field(default="", alias="runID")
    """The run, once it is known."""
    last_transition_time: MicroTime
    """When it was noticed."""


class TaskRun(ApiModel):
    """The record of one run. Written before the run exists."""

    run_id: str = Field(alias="runID")
    """Name of the run: task and 12 hexadecimal digits that follow from the identity below."""
    inputs_version: str = ""
    """The inputs it was made for; empty for a run that was found without a record."""
    inputs_hash: str = ""
    """Hash of their content: spec and annotations."""
    attempt: Int32 = 1
    """1 for the first run of these inputs; one more after every run that ended without success."""
    slot: str = ""
    """Of a periodic task: the start of the period, as time."""
    operation: TaskOperation = TaskOperation.APPLY
    """Apply, or the teardown of what earlier runs made."""
    state: TaskState = TaskState.PENDING
    """How far it is."""
    outcome: TaskOutcome | None = None
    """How it ended."""
    message: str = ""
    """What it said last."""
    lost: bool = False
    """Whether its Pod or node was lost: its inputs are not the cause."""
    message_at: MicroTime | None = None
    """When the message of a run under way was recorded. Not every one is."""
    logs: str = ""
    """Where its logs are."""
    created_at: MicroTime | None = None
    """When the intent was recorded."""
    started_at: MicroTime | None = None
    """When it was first seen running."""
    finished_at: MicroTime | None = None
    """When it was seen finished."""
    deadline: MicroTime | None = None
    """When it is given up."""
    interrupt_at: MicroTime | None = None
    """When it is cancelled if it has not ended by then: newer inputs, a deletion or a retry came."""
    retry_at: MicroTime | None = None
    """When the next attempt starts."""
    traceparent: str = ""
    """Trace in which it was started (W3C Trace Context)."""
    superseded: bool = False
    """Newer inputs are there: it is awaited or being cancelled."""
    state_lock_holder: str = ""
    """Of a run that was ended while it held the lock of Terraform's state: the holder as the lock names it."""
    hold: str = ""
    """Of a run that changed nothing since a person has to decide: the reason in one word; its message has the command."""
    plan_digest: str = ""
    """The plan that it carries out or gives up, or with which it ended without applying it."""
    plan_decision: PlanDecision | None = None
    """What was decided about that plan when the run was recorded; without it the run applies no plan that waits."""


class StateLock(ApiModel):
    """The lock of a Terraform state, as the run saw it that was refused for it."""

    id: str
    """What identifies it where the state is."""
    who: str = ""
    """User and host that hold it."""
    operation: str = ""
    """What it is held for."""
    created: str = ""
    """When it was acquired, in the words of Terraform."""
    run_id: str = Field(default="", alias="runID")
    """The run of this object that was ended while it held the lock, so that it is orphaned; empty: another holder, which may be at work."""


class PlannedChange(ApiModel):
    """A plan that was made and is not applied."""

    digest: str
    """What an approval names: it follows from the plan and the run that made it."""
    run_id: str = Field(alias="runID")
    """The run that made it."""
    content: str = ""
    """The plan where it was made: its run in HCP Terraform, or a hash of its changes."""
    operation: TaskOperation = TaskOperation.APPLY
    """What the run was for; a Plan cannot be approved."""
    inputs_hash: str = ""
    """Hash of the inputs that it is for."""
    slot: str = ""
    """Of a look for drift: the time of the schedule."""
    add: Int32 = 0
    """Resources that are created, those included that take the place of others."""
    change: Int32 = 0
    """Resources that are changed in place."""
    destroy: Int32 = 0
    """Resources that are destroyed, those included that are replaced."""
    replace: Int32 = 0
    """How many of the destroyed ones are known to be replaced."""
    destroys: list[str] = Field(default_factory=list)
    """Addresses of resources that are destroyed or replaced, such as `replace google_compute_disk.data`; 20 at most."""
    link: str = ""
    """Where the plan can be looked at."""
    since: MicroTime
    """Since when it waits."""
    checked_at: MicroTime
    """When a run last found it as it is."""


class TaskSuccess(ApiModel):
    """The inputs that were last carried out."""

    inputs_version: str
    """Which they were."""
    run_id: str = Field(alias="runID")
    """By which run."""
    inputs_hash: str = ""
    """Hash of spec and annotations: the same content again, under a newer generation, is no reason for
    another run."""
    slot: str = ""
    """Of a periodic task: in which period."""
    finished_at: MicroTime
    """When."""


class WaitingReason(StrEnum):
    """What a task waits for."""

    LIMIT = "Limit"
    """As many runs of its type as may run at once are running."""
    RATE = "Rate"
    """As many runs of its type as may start in a minute have started."""
    INSTANCE_BUSY = "InstanceBusy"
    """Another task of the same instance is running."""
    FROZEN = "Frozen"
    """A ChangeFreeze holds all changes."""
    WINDOW = "Window"
    """No maintenance window of the instance is open."""
    APPROVAL = "Approval"
    """A plan that no person has approved."""
    TURN = "Turn"
    """The leader of several managers, which grants starts, has not looked at it yet."""


class Waiting(ApiModel):
    """Why a task does not run yet."""

    reason: WaitingReason
    """What it waits for."""
    limit: Int32 = 0
    """How many may run at once, or start in a minute."""
    priority: TaskPriority | None = None
    """The priority with which it waits, if that is not Normal."""
    position: Int32 = 0
    """Its place in the queue; 1 is next. As of the last write, which is not made for every step."""
    holder: str = ""
    """For InstanceBusy: kind and name of what is running. Otherwise what has been running longest."""
    message: str = ""
    """For Frozen the freeze and its reason; for Window when it opens; for Approval the plan and what to do."""
    until: MicroTime | None = None
    """For Frozen and Window: when the wait ends by itself, if that is known."""
    since: MicroTime
    """Since when it waits."""
    as_of: MicroTime | None = None
    """When position, holder and estimate were written."""
    estimate: Duration | None = None
    """How long it may take still, judged by the last runs of its type."""
    granted_at: MicroTime | None = None
    """When the leader of several managers granted the start: it counts as running from then on."""


class FoundDrift(ApiModel):
    """What a run that looked for drift found."""

    reason: str
    """Reason of the condition Drifted."""
    message: str
    """What differs, and what to do."""


class TaskStatus(ApiModel):
    """What is known of an object that drives tasks."""

    observed_generation: int = 0
    """The generation that the status was computed for."""
    phase: Phase = Phase.PENDING
    """Where it stands."""
    message: str = ""
    """One sentence for people."""
    conditions: Conditions = Field(default_factory=list)
    """Ready: the current inputs have been carried out."""
    task_conditions: list[TaskCondition] = Field(default_factory=list)
    """The last steps of its runs, newest first."""
    run: TaskRun | None = None
    """The run under way, or else the last one."""
    history: list[TaskRun] = Field(default_factory=list)
    """Runs that ended, newest first, without the one above."""
    succeeded: TaskSuccess | None = None
    """The inputs that were last carried out."""
    outputs: dict[str, str] = Field(default_factory=dict)
    """What the last successful run handed back."""
    outputs_secret_name: str = ""
    """Secret with the outputs that must not be seen."""
    record: dict[str, str] = Field(default_factory=dict)
    """What identifies what the last successful run left behind, such as lineage and serial of a Terraform state. What
    is found later is compared with it."""
    drift: FoundDrift | None = None
    """What differs from what was applied, by the last run that looked; the condition Drifted has the same."""
    waiting: Waiting | None = None
    """Why it does not run yet."""
    approvals: ApprovalsStatus | None = None
    """Whose approvals it needs by its Instance, also once that is gone, and who gave those that count."""
    plan: PlannedChange | None = None
    """The plan that waits, of a task that plans first."""
    state_lock: StateLock | None = None
    """The lock of Terraform's state for which the last run was refused."""
    last_handled_retry: str = ""
    """The value of the annotation that requests a retry when it was last carried out."""
    last_handled_reconcile: str = ""
    """The value of the annotation that requests a run of unchanged inputs when it was last carried out."""
    last_handled_reconcile_now: str = ""
    """The value of the annotation ctrlruntime.dev/reconcile-now that was last carried out."""


class Expectation(ApiModel):
    """One value in a JSON answer."""

    path: Annotated[str, Field(min_length=1)]
    """JSONPath; `$` is the whole answer."""
    equals: JSONValue = None
    """The value that must be there, in every place the path leads to; without it, any. Texts are filled
    like those of a body."""


class SecretHeader(ApiModel):
    """A header whose value is in a Secret."""

    name: Annotated[str, Field(min_length=1)]
    """Name of the header."""
    prefix: str = ""
    """What stands before the value, such as `Bearer `."""
    value_from: SecretKeyRef
    """Where the value is."""


class HTTPRequest(ApiModel):
    """A request, and the answer that counts as good.

    `${instance}`, `${version}`, `${domain}` and `${outputs.NAME}` are replaced in url, headers, body
    and expected values; `$${` is a literal `${`.
    """

    url: Annotated[str, Field(pattern="^https?://")]
    """Where to send it."""
    method: Annotated[str, Field(pattern="^(GET|HEAD|POST|PUT|PATCH|DELETE)$")] = "GET"
    """The method."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers."""
    secret_headers: Annotated[list[SecretHeader], ListMap("name")] = Field(default_factory=list)
    """Headers whose values are in Secrets. Never sent to another host that a redirect leads to."""
    body: RawExtension | None = None
    """Sent as JSON. A text that is nothing but `${alerting}` becomes true or false."""
    status_codes: list[Int32] = Field(default_factory=lambda: [200])
    """Codes of a good answer."""
    expect: list[Expectation] = Field(default_factory=list)
    """What a good answer has to say."""
    timeout_seconds: Annotated[Int32, Field(ge=1, le=600)] = 30
    """How long to wait for the answer."""


class JobHook(ApiModel):
    """A command in a container, run once in the instance's cluster."""

    image: Annotated[str, Field(min_length=1)]
    """The image."""
    command: list[str] = Field(default_factory=list)
    """The command; the image's own if empty."""
    env: dict[str, str] = Field(default_factory=dict)
    """Environment; the places that requests replace are replaced here too."""
    service_account_name: ServiceAccountName | None = None
    """ServiceAccount in the instance's cluster."""
    pod_annotations: dict[str, str] = Field(default_factory=dict)
    """Annotations of the Pod."""


class Hook(ApiModel, rules=(exactly_one_of("http", "job"),)):
    """Something to do outside, once for each upgrade."""

    http: HTTPRequest | None = None
    """A request that starts it. Sent with an `Idempotency-Key` that is the same for each attempt; a
    backup that is repeated has another one."""
    job: JobHook | None = None
    """A Job in the instance's cluster."""
    until: HTTPRequest | None = None
    """Asked again and again until its answer is good."""
    timeout_seconds: Annotated[Int32, Field(ge=1, le=86400)] = 1800
    """How long it may take."""
