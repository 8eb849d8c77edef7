"""How a changed template reaches its tenants, and how far it has come."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from apis.references import NumberOrPercentage
from apis.windows import MaintenanceWindow
from ctrlruntime.api import CEL, ApiModel, Int32, Time
from ctrlruntime.rollout.health_checks import HealthChecks, HealthCheckStatuses

__all__ = [
    "Canary",
    "CanarySelector",
    "MaintenanceWindow",
    "OnHalt",
    "RolloutPhase",
    "RolloutStatus",
    "TemplateRollout",
]


class CanarySelector(ApiModel):
    """Tenants that have all of these labels and all of these variables."""

    match_labels: dict[str, str] = Field(default_factory=dict)
    """Labels of the Tenant."""
    match_variables: dict[str, str] = Field(default_factory=dict)
    """Variables of the Tenant's row; sensitive ones match nothing."""


class Canary(ApiModel):
    """The tenants that change first."""

    percent: Annotated[Int32, Field(ge=1, le=100)] | None = None
    """A share of the tenants in percent, rounded up; another choice for each revision."""
    selector: CanarySelector | None = None
    """The tenants by their labels and variables. A selector without any tenant holds the rollout."""


class OnHalt(StrEnum):
    """What a halt does to the tenants that have changed."""

    HOLD = "Hold"
    ROLLBACK = "Rollback"


class TemplateRollout(ApiModel):
    """How a change of the template's content reaches its tenants; with ``rows``, changes of their rows too."""

    rows: bool = False
    """Whether changed values of rows take part: budget, canary, halt and rollback are then for both together, and a
    rollback returns a tenant to the values that it had before, but not to sensitive ones. New rows do not wait.
    Default: a changed row reaches its tenants at once."""
    max_skew: NumberOrPercentage | None = None
    """Tenants that may change at once: a number, or a percentage of the template's tenants (rounded down,
    at least 1). Default and 0: all of them. A fix of a failed tenant does not count."""
    canary: (
        Annotated[
            Canary,
            CEL(
                "has(self.percent) != has(self.selector)",
                message="set either percent or selector",
            ),
        ]
        | None
    ) = None
    """Tenants that change first; the others follow once all of these are ready and have soaked."""
    soak_seconds: Annotated[Int32, Field(ge=0, le=604800)] = 0
    """How long the canary has to be ready before the others follow, and how long after its deadline a
    changed tenant that loses health still counts as failed."""
    progress_deadline_seconds: Annotated[Int32, Field(ge=1, le=86400)] = 600
    """How long a changed tenant may take to become ready. Then it counts as failed and no longer as changing."""
    pause: bool = False
    """Stop changing tenants; those that are changing finish."""
    halt_on_failures: NumberOrPercentage | None = None
    """Halt once so many changed tenants have failed: a number, or a percentage of the template's tenants
    (rounded down, at least 1). Default: never, and 1 with onHalt Rollback. The rollout continues when fewer have
    failed, when the limit is raised, or with other content."""
    health_checks: HealthChecks = Field(default_factory=list)
    """Checks of health outside of the tenants. While one has no good result, no tenant changes; one that fails
    after tenants have changed, until progressDeadlineSeconds and soakSeconds of the last of them are over, halts the
    rollout, until it is resumed or the content changes."""
    on_halt: OnHalt = OnHalt.HOLD
    """What a halt does to the tenants that have changed. Hold: they stay as they are. Rollback: each gets the
    content back that it had before."""
    irreversible: bool = False
    """The present content cannot be taken back, a migration for example: a halt holds whatever onHalt is, and
    what changes while this is set is never rolled back."""
    maintenance_windows: Annotated[list[MaintenanceWindow], Field(max_length=16)] = Field(
        default_factory=list
    )
    """Tenants change only while one of these is open; without any, at all times."""


class RolloutPhase(StrEnum):
    """Where a rollout stands."""

    PROGRESSING = "Progressing"
    PAUSED = "Paused"
    HALTED = "Halted"
    ROLLING_BACK = "RollingBack"
    ROLLED_BACK = "RolledBack"
    WAITING_FOR_WINDOW = "WaitingForWindow"
    FROZEN = "Frozen"
    """A ChangeFreeze holds it."""
    COMPLETE = "Complete"


class RolloutStatus(ApiModel):
    """How far the template's content has reached its tenants."""

    phase: RolloutPhase
    """Progressing, Paused, Halted, RollingBack, RolledBack, WaitingForWindow, Frozen or Complete."""
    target_revision: str
    """Revision of the content that is rolled out."""
    total: Int32 = 0
    """Tenants that get the revision."""
    updated: Int32 = 0
    """Those that have it."""
    changing: Int32 = 0
    """Those that changed and are not ready yet, within their deadline."""
    failed: Int32 = 0
    """Those that changed and failed, or did not become ready in time."""
    waiting: Int32 = 0
    """Those that wait for the revision."""
    rolled_back: Int32 = 0
    """Those that a halt returned to the content before."""
    kept: Int32 = 0
    """Those that a halt would return and cannot; the message has the reasons."""
    waiting_reason: str = ""
    """Why most of them wait: Paused, Frozen, Halted, Window, Wave, Budget, Health or MemberPaused; empty: none
    waits."""
    message: str = ""
    """The same in words."""
    waiting_until: Time | None = None
    """When the wait ends at the earliest, if that is known."""
    health_checks: HealthCheckStatuses = Field(default_factory=list)
    """The checks of health."""
