"""Changes that are held from outside: by a ChangeFreeze, or until a maintenance window opens."""

from __future__ import annotations

from enum import StrEnum

from ctrlruntime.api import ApiModel, Int32, Time
from ctrlruntime.rollout import Waiting

__all__ = ["ChangesWaiting", "HoldReason", "changes_waiting"]


class HoldReason(StrEnum):
    """What holds changes."""

    FROZEN = "Frozen"
    """A ChangeFreeze."""
    WINDOW = "Window"
    """No maintenance window is open."""


class ChangesWaiting(ApiModel):
    """Changes that wait, and for what."""

    reason: HoldReason
    """Frozen or Window."""
    message: str = ""
    """The name and reason of the freeze, or when the window opens."""
    until: Time | None = None
    """When the wait ends by itself, if that is known."""
    changes: Int32 = 0
    """How many changes wait."""


def changes_waiting(hold: Waiting | None, changes: int) -> ChangesWaiting | None:
    """Return what a status shows of a hold; None if nothing waits."""
    if hold is None or not changes:
        return None
    return ChangesWaiting(
        reason=HoldReason(hold.reason.value),
        message=hold.message,
        until=hold.until,
        changes=changes,
    )
