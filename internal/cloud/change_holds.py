"""What holds the changes of an instance: a freeze, or its own maintenance windows. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from apis.cloud import Waiting, WaitingReason
from apis.windows import MaintenanceWindow, windows_of
from ctrlruntime.cache.entry import Entry
from ctrlruntime.rollout import BadWindow, Reason, Window, closed_window
from ctrlruntime.rollout import Waiting as Hold

WINDOWS = "spec.maintenanceWindows"
_WINDOWS: TypeAdapter[list[MaintenanceWindow]] = TypeAdapter(list[MaintenanceWindow])


def windows_of_instance(entry: Entry) -> tuple[Window, ...]:
    """Return the maintenance windows of an instance. Raises BadWindow."""
    try:
        spec: Mapping[str, Any] = entry.field("spec") or {}
        given = spec.get("maintenanceWindows")
        if not given:
            return ()
        return windows_of(_WINDOWS.validate_python(given), WINDOWS)
    except ValidationError:
        raise BadWindow(f"{WINDOWS} cannot be read") from None


def window_hold(entry: Entry | None, now: datetime) -> Hold | None:
    """Return why changes of an instance wait for its windows; windows that cannot be used are closed."""
    if entry is None:
        return None
    try:
        return closed_window(windows_of_instance(entry), now)
    except BadWindow as error:
        return Hold(Reason.WINDOW, f"no maintenance window can be used: {error}")


def is_deployed(entry: Entry | None) -> bool:
    """Return whether a version of the instance runs, so that a run may change it; also if that is not known."""
    return entry is None or bool((entry.field("status") or {}).get("version"))


def is_held(waiting: Waiting | None) -> bool:
    """Return whether what is waited for is a freeze or a window."""
    return waiting is not None and waiting.reason in (WaitingReason.FROZEN, WaitingReason.WINDOW)


def waits_for_people(waiting: Waiting | None) -> bool:
    """Return whether what is waited for is no place among other runs: a freeze, a window or an approval."""
    return is_held(waiting) or _awaits_approval(waiting)


def _awaits_approval(waiting: Waiting | None) -> bool:
    return waiting is not None and waiting.reason is WaitingReason.APPROVAL


def held_waiting(before: Waiting | None, hold: Hold, now: datetime) -> Waiting:
    """Return what the status shows of a hold: what it showed before, if nothing of it changed."""
    reason = WaitingReason(hold.reason.value)
    if before is not None and (before.reason, before.message, before.until) == (
        reason,
        hold.message,
        hold.until,
    ):
        return before
    return Waiting(
        reason=reason,
        message=hold.message,
        until=hold.until,
        since=now if before is None or _awaits_approval(before) else before.since,
        as_of=now,
    )
