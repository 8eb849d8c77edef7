"""Why a change waits, and until when. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Reason(StrEnum):
    """Why a member waits for the target."""

    PAUSED = "Paused"
    FROZEN = "Frozen"
    """A freeze holds all changes, from outside of the rollout."""
    HALTED = "Halted"
    WINDOW = "Window"
    WAVE = "Wave"
    """An earlier wave is not done."""
    APPROVAL = "Approval"
    BUDGET = "Budget"
    HEALTH = "Health"
    """A check of health outside of the members has no good result."""
    MEMBER_PAUSED = "MemberPaused"
    MEMBER_UNFIT = "MemberUnfit"


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a member waits, and until when if that is known."""

    reason: Reason
    message: str
    until: datetime | None = None
