"""FleetRollout: one version, brought to many instances in waves."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from apis.approvals import ApprovalsStatus, RequireApprovalBy
from apis.columns import AGE, count_columns
from apis.references import NumberOrPercentage
from apis.windows import MaintenanceWindow
from ctrlruntime.api import (
    CEL,
    ApiModel,
    Conditions,
    Int32,
    ListMap,
    PrintColumn,
    Resource,
    Time,
)
from ctrlruntime.rollout import OnHalt
from ctrlruntime.rollout.health_checks import HealthChecks, HealthCheckStatuses

from .common import GROUP, VERSION, TaskPriority

__all__ = [
    "FleetRollout",
    "FleetRolloutPhase",
    "FleetRolloutSpec",
    "FleetRolloutStatus",
    "FleetWave",
    "FleetWaveStatus",
    "RolloutAction",
    "WaveApproval",
]

Percent = Annotated[Int32, Field(ge=0, le=100)]


class WaveApproval(StrEnum):
    """Whether a wave begins by itself."""

    AUTOMATIC = "Automatic"
    MANUAL = "Manual"


class RolloutAction(StrEnum):
    """What is done with the target version."""

    ROLL_OUT = "RollOut"
    ABORT = "Abort"
    UNDO = "Undo"


class FleetWave(ApiModel):
    """A stage: how many instances have the version before the next stage begins. It contains those before it."""

    name: Annotated[
        str, Field(min_length=1, max_length=63, pattern="^[A-Za-z0-9]([-A-Za-z0-9.]*)$")
    ]
    """Its name."""
    groups: Annotated[dict[str, Percent], Field(max_length=32)] = Field(default_factory=dict)
    """By value of the label `groupBy`, a share of these instances in percent, rounded up."""
    percent: Percent | None = None
    """The share of the instances of all other groups. Default: 100 without `groups`, else 0."""
    soak_seconds: Annotated[Int32, Field(ge=0, le=2592000)] = 0
    """How long its instances have to be ready, counted from their change, before the next wave begins."""
    approval: WaveApproval = WaveApproval.AUTOMATIC
    """Manual: no instance of the wave changes before `manager rollout approve`."""
    max_concurrent: NumberOrPercentage | None = None
    """Instances that may change at once while this wave is in progress, if fewer than the rollout's."""


class FleetRolloutSpec(ApiModel):
    """Which version, for whom, and in which steps."""

    target_version: Annotated[str, Field(min_length=1, max_length=128)]
    """The version of the application that the instances get."""
    selector: Annotated[dict[str, str], Field(max_length=32)] = Field(default_factory=dict)
    """Labels that an instance of this namespace has to have; all instances if empty."""
    group_by: Annotated[str, Field(min_length=1, max_length=317)] = "instance-type"
    """Label of an instance whose value is its group."""
    waves: Annotated[list[FleetWave], ListMap("name"), Field(max_length=16)] = Field(
        default_factory=list
    )
    """The stages in their order. After the last one, the remaining instances follow. If every wave names groups and
    none has a percent, instances of other groups are skipped."""
    start_at: Annotated[str, Field(max_length=63)] = ""
    """The wave to begin with; those before it are skipped. Default: the first."""
    max_concurrent: NumberOrPercentage = 10
    """Instances that may change at once: a number, or a percentage of all (rounded down, at least 1). A fix of an
    instance that the rollout broke does not count."""
    progress_deadline_seconds: Annotated[Int32, Field(ge=1, le=86400)] = 3600
    """How long a changed instance may take to become ready. Then it counts as failed and no longer as changing."""
    failure_soak_seconds: Annotated[Int32, Field(ge=0, le=2592000)] = 3600
    """How long after its deadline a changed instance that loses health still counts as failed; at least the longest
    soak of a wave."""
    halt_on_failures: NumberOrPercentage = 1
    """Halt once so many changed instances have failed. The rollout continues when fewer have failed, when the limit
    is raised, with another version, or with `manager rollout resume`."""
    health_checks: HealthChecks = Field(default_factory=list)
    """Checks of health outside of the instances. While one has no good result, no instance changes; one that fails
    after instances have changed, until the last of them has soaked, halts the rollout."""
    on_halt: OnHalt = OnHalt.HOLD
    """What a halt does to the instances that have changed. Hold: they stay as they are. Rollback: each gets the
    version back that it had before."""
    irreversible: bool = False
    """The version cannot be taken back: a halt holds whatever onHalt is, and what changes while this is set is
    never rolled back."""
    maintenance_windows: Annotated[list[MaintenanceWindow], Field(max_length=16)] = Field(
        default_factory=list
    )
    """Instances change only while one of these is open; without any, at all times. A rollback does not wait."""
    require_approval_by: RequireApprovalBy | None = None
    """Whose approvals of waves, and resumptions after a halt, count; by default those of everyone who may write them. While
    it is set, only a member of the group changes it, or has a wave begin without an approval."""
    priority: TaskPriority | None = None
    """How early the runs get a place that bring an instance to the version, when runs of other instances wait too.
    High is for a security patch. Default: Normal."""
    pause: bool = False
    """Stop changing instances; those that are changing finish."""
    action: RolloutAction = RolloutAction.ROLL_OUT
    """RollOut; Abort: change nothing more and leave the instances to other rollouts; Undo: return the instances that
    this rollout changed to the version before."""


class FleetRolloutPhase(StrEnum):
    """Where a rollout stands."""

    PENDING = "Pending"
    PROGRESSING = "Progressing"
    WAITING_FOR_APPROVAL = "WaitingForApproval"
    WAITING_FOR_WINDOW = "WaitingForWindow"
    FROZEN = "Frozen"
    """A ChangeFreeze holds it."""
    PAUSED = "Paused"
    HALTED = "Halted"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"
    COMPLETE = "Complete"
    ABORTED = "Aborted"
    SUPERSEDED = "Superseded"
    """A newer rollout selects all of its instances."""
    INVALID = "Invalid"
    """The spec cannot be used; the message names the field."""


class FleetWaveStatus(ApiModel):
    """How far one wave has come."""

    name: str
    """Its name."""
    instances: Int32 = 0
    """Instances that have the version once the wave is done."""
    updated: Int32 = 0
    """Those of them that have it."""
    ready: Int32 = 0
    """Those of them that have it and are ready."""


class FleetRolloutStatus(ApiModel):
    """How far the version has reached the instances."""

    observed_generation: int = 0
    """The generation that the status was computed for."""
    phase: FleetRolloutPhase = FleetRolloutPhase.PENDING
    """Where it stands."""
    message: str = ""
    """One sentence: why it is halted, or what most instances wait for."""
    target_version: str = ""
    """The version that is rolled out."""
    total: Int32 = 0
    """Instances that get the version."""
    updated: Int32 = 0
    """Those that have it."""
    changing: Int32 = 0
    """Those that changed and are not ready yet, within their deadline."""
    failed: Int32 = 0
    """Those that changed and failed, or did not become ready in time."""
    failed_message: str = ""
    """What failed of them; it stays while the rollout is halted or has been rolled back for it."""
    waiting: Int32 = 0
    """Those that wait for the version."""
    waiting_reason: str = ""
    """Why most of them wait: Paused, Frozen, Halted, Window, Wave, Approval, Budget, Health, MemberPaused or MemberUnfit."""
    waiting_until: Time | None = None
    """When the wait ends at the earliest, if that is known."""
    rolled_back: Int32 = 0
    """Those that were returned to the version before."""
    kept: Int32 = 0
    """Those that a rollback would return and cannot; the message has the reasons."""
    skipped: Int32 = 0
    """Instances that the selector matches and that never get the version from this rollout."""
    skipped_message: str = ""
    """Why, with one instance of each reason."""
    wave: str = ""
    """The wave in progress; `rest` after the last one."""
    waves: Annotated[list[FleetWaveStatus], ListMap("name")] = Field(default_factory=list)
    """How far each wave has come."""
    health_checks: HealthCheckStatuses = Field(default_factory=list)
    """The checks of health."""
    approvals: ApprovalsStatus | None = None
    """Whose approvals are needed, and who gave those that counted."""
    approval_digest: str = ""
    """Digest of version, selector and waves: what an approval is given for."""
    conditions: Conditions = Field(default_factory=list)
    """Complete; RolloutHalted; Ready: whether the spec can be used."""
    last_handled_reconcile: str = ""
    """The value of the annotation ctrlruntime.dev/reconcile-now that was last carried out."""


class FleetRollout(
    Resource[FleetRolloutSpec, FleetRolloutStatus],
    group=GROUP,
    version=VERSION,
    plural="fleetrollouts",
    categories=("cloud",),
    print_columns=(
        PrintColumn("Target", ".spec.targetVersion", "string"),
        PrintColumn("Phase", ".status.phase", "string"),
        PrintColumn("Wave", ".status.wave", "string"),
        *count_columns(Updated="updated", Total="total", Changing="changing", Failed="failed"),
        PrintColumn("Priority", ".spec.priority", "string", priority=1),
        PrintColumn("Until", ".status.waitingUntil", "date", priority=1),
        AGE,
        PrintColumn("Message", ".status.message", "string"),
    ),
    rules=(
        CEL(
            "!has(self.spec.startAt) || self.spec.startAt == '' || "
            "(has(self.spec.waves) && self.spec.waves.exists(w, w.name == self.spec.startAt))",
            message="startAt names none of the waves",
            field_path=".spec.startAt",
        ),
    ),
):
    """Brings one version to many instances of its namespace: waves, budget, windows, halt and rollback."""
