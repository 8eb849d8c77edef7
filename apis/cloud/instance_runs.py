"""When the Terraform runs of an Instance start, and what comes between a plan and its application."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from ctrlruntime.api import ApiModel

from .common import PlanApproval

__all__ = ["DriftAction", "DriftDetection", "TerraformOperation", "TerraformRuns"]


class DriftAction(StrEnum):
    """What becomes of infrastructure that differs from what was applied."""

    REPORT = "Report"
    """It is reported."""
    APPLY = "Apply"
    """It is applied again, unless the plan destroys something; then it is reported."""


class DriftDetection(ApiModel):
    """When the infrastructure is compared with what was applied, by a plan."""

    schedule: Annotated[str, Field(min_length=1, max_length=256)]
    """When: a cron expression of five fields, or such as @daily."""
    time_zone: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """Time zone of the schedule such as Europe/Berlin; default: UTC."""
    action: DriftAction = DriftAction.REPORT
    """What becomes of what differs."""


class TerraformOperation(StrEnum):
    """What runs of Terraform do."""

    APPLY = "Apply"
    """Plan, and apply the plan."""
    PLAN = "Plan"
    """Plan only: the plan is in the status, and nothing is applied."""


class TerraformRuns(ApiModel):
    """What comes between a plan of Terraform and its application. A deletion is not part of it."""

    operation: TerraformOperation = TerraformOperation.APPLY
    """What runs do."""
    approval: PlanApproval = PlanApproval.AUTOMATIC
    """Who decides that a plan is applied. One that destroys or replaces something always waits for an approval."""
