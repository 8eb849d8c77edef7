"""What a decision rests on, and what comes of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from apis.cloud import (
    PlanDecision,
    PlannedChange,
    TaskCondition,
    TaskOperation,
    TaskPriority,
    TaskRun,
    TaskStatus,
)
from ctrlruntime.rollout import Waiting
from internal.cloud.pace import Pace
from internal.cloud.runs import RunName, RunOwner
from internal.cloud.taskdriver.drift_checks import DriftCheck
from internal.cloud.taskdriver.inputs import Inputs, is_apply_failed, is_carried_out
from internal.cloud.taskdriver.plan_approval import PlanPolicy
from internal.cloud.taskdriver.record import Identity, Slot, scheduled_slot, slot_at
from internal.cloud.tasks.task import TaskDefinition


class Leaving(StrEnum):
    """What becomes of what runs made, when their object is deleted."""

    TEAR_DOWN = "TearDown"
    """A run undoes it, if the task has a teardown."""
    KEEP = "Keep"
    """It stays: the object will be made anew, and finds it."""
    RELEASE = "Release"
    """It stays: the CRD is being deleted, and no person decided on this object."""
    HOLD = "Hold"
    """It stays, and so does the object, until that is decided otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """Why no run is started for an object."""

    reason: str
    """Reason of the condition Ready."""
    message: str
    """What is wrong and what to do."""
    interrupts: bool = False
    """Whether a run under way is interrupted as well: what would follow it is torn down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One object at one moment."""

    definition: TaskDefinition
    owner: RunOwner
    instance: str
    inputs: Inputs
    generation: int
    status: TaskStatus
    """As it stands; it is not changed."""
    now: datetime
    deleting: bool = False
    leaving: Leaving = Leaving.TEAR_DOWN
    """What a deletion means."""
    orphaned: bool = False
    """Whether its instance is missing."""
    pause: str = ""
    """Which annotation keeps new runs from starting, for people; empty: none."""
    superseded: bool = False
    """Another version is wanted: no further run is started, for good."""
    held: Hold | None = None
    """Why no run is started although one may be needed; None: nothing blocks it."""
    hold: Waiting | None = None
    """The freeze or window for which a change waits; None: changes may be made."""
    deployed: bool = True
    """Whether a version of the instance runs, which a run may change."""
    priority: TaskPriority = TaskPriority.NORMAL
    """How early the next run gets a place."""
    retry: str = ""
    """The annotation that requests another attempt."""
    reconcile: str = ""
    """The annotation that requests a run of inputs that are carried out already."""
    cancel: str = ""
    """The id of the run that a person cancelled; empty: none was."""
    drift_check: DriftCheck | None = None
    """When a run looks for drift; None: never."""
    bad_schedule: str = ""
    """Why no run looks for drift although one should; empty: nothing is wrong."""
    drift: str = ""
    """What differs from what the last run left, so that a run repairs it; empty: nothing."""
    plans: PlanPolicy = field(default_factory=PlanPolicy)
    """What comes between a plan and its application, and what a person decided."""
    period: float | None = None
    """Seconds of the period; None: not periodic."""
    told: bool = False
    """Whether the provider tells of changes."""
    pace: Pace = field(default_factory=Pace)

    @property
    def slot(self) -> Slot | None:
        """The slot it is now; None for what is not periodic, or goes."""
        if self.drift_check is not None and self.checks_drift:
            return scheduled_slot(self.now, self.drift_check.schedule)
        if self.period is None or self.deleting:
            return None
        return slot_at(self.now, self.period, self.owner.uid)

    @property
    def paused(self) -> bool:
        """Whether no new run is started."""
        return bool(self.pause)

    @property
    def operation(self) -> TaskOperation:
        """What runs do now."""
        if self.deleting:
            return TaskOperation.TEARDOWN
        plan = self.open_plan
        if plan is not None:
            return plan.operation
        if self.plans.only:
            return TaskOperation.PLAN
        if self.drift_check is not None and self.checks_drift:
            return self.drift_check.operation
        return TaskOperation.APPLY

    @property
    def open_plan(self) -> PlannedChange | None:
        """The plan that waits, or is being carried out; None if it is not what would be done now."""
        plan = self.status.plan
        if plan is None or self.deleting or self.reconcile_asked:
            return None
        only_planned = plan.operation is TaskOperation.PLAN
        if plan.inputs_hash != self.inputs.hash or only_planned != self.plans.only:
            return None
        return plan

    @property
    def decision(self) -> PlanDecision | None:
        """What a person decided about that plan; None: nothing yet."""
        plan = self.open_plan
        return None if plan is None else self.plans.decision(plan)

    @property
    def undecided_plan(self) -> PlannedChange | None:
        """The plan that waits for a person."""
        return self.open_plan if self.decision is None else None

    @property
    def checks_drift(self) -> bool:
        """Whether nothing is to be applied, so that runs only look for drift."""
        if self.drift_check is None or self.deleting or self.reconcile_asked:
            return False
        return is_carried_out(self.status, self.inputs) and not is_apply_failed(self.status)

    @property
    def retry_asked(self) -> bool:
        """Whether another attempt was asked for and not given yet."""
        return bool(self.retry) and self.retry != self.status.last_handled_retry

    @property
    def reconcile_asked(self) -> bool:
        """Whether a run of unchanged inputs was asked for and not given yet. A task that runs once has none."""
        handled = self.status.last_handled_reconcile
        return bool(self.reconcile) and self.reconcile != handled and not self.definition.once

    def is_cancelled(self, run: TaskRun) -> bool:
        """Whether a person cancelled that run."""
        return bool(self.cancel) and self.cancel == run.run_id

    def first_attempt(self) -> Identity:
        """Return what would be done now, by its first attempt."""
        return Identity(
            owner_uid=self.owner.uid,
            operation=self.operation,
            inputs_version=self.inputs.version,
            attempt=1,
            slot=self._slot_name,
        )

    @property
    def _slot_name(self) -> str:
        if self.open_plan is not None:
            return self.open_plan.slot
        return "" if self.slot is None else self.slot.name

    def deadline(self, since: datetime) -> datetime:
        """When a run that was recorded then is given up."""
        return since + timedelta(seconds=self.definition.timeout)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is to be written and done. Effects come after the write, in the order of the fields."""

    status: TaskStatus
    steps: Sequence[TaskCondition] = ()
    """What is new in it, oldest first."""
    ended: TaskRun | None = None
    """The run that is recorded as ended by this."""
    secret_outputs: Mapping[str, str] | None = field(default=None, repr=False)
    """To be kept before the write; None: nothing is known of them."""
    discard: Sequence[RunName] = ()
    """To be deleted before the write: nothing lists the copies of Secrets of a run that never began, or was taken away,
    once its end is on record, so that a delete that was lost would not be repeated."""
    cancel: Sequence[RunName] = ()
    delete: Sequence[RunName] = ()
    start: bool = False
    """Whether the recorded run is to be started. Its intent is in the status, before or by this."""
    holds: bool = False
    """Whether a run counts against the limits."""
    let_go: bool = False
    """Whether the object may go."""
    requeue: float | None = None
    """Seconds until the next pass; None: when something happens."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A run that should be under way."""

    identity: Identity


@dataclass(frozen=True, slots=True)
class Rest:
    """No run is to be started now."""

    until: datetime | None = None
    """When that changes by itself."""


@dataclass(frozen=True, slots=True)
class CleanUp:
    """The object goes, and nothing is left to be torn down."""


Next = Wanted | Rest | CleanUp
