"""Maintenance windows, as the kinds of all groups have them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated

from pydantic import Field

from ctrlruntime.api import CEL, ApiModel
from ctrlruntime.api.scalars import parse_duration
from ctrlruntime.rollout import BadWindow, Window, parse_window

__all__ = ["LONGEST_WINDOW", "MaintenanceWindow", "windows_of"]

LONGEST_WINDOW = timedelta(days=31)


class MaintenanceWindow(ApiModel):
    """When changes may begin."""

    schedule: Annotated[str, Field(min_length=1, max_length=256)]
    """When the window opens: a cron expression of five fields."""
    duration: Annotated[
        str,
        Field(max_length=10, pattern=r"^[0-9]+(s|m|h)$"),
        CEL(
            "duration(self) > duration('0s') && duration(self) <= duration('744h')",
            message="duration must be longer than 0s and at most 744h",
        ),
    ]
    """How long it stays open: a whole number of seconds, minutes or hours, at most 744h."""
    time_zone: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """Time zone of the schedule such as Europe/Berlin; default: UTC."""

    @property
    def length(self) -> timedelta:
        """``duration`` as a span of time, at most 31 days."""
        return min(parse_duration(self.duration), LONGEST_WINDOW)


def windows_of(items: Sequence[MaintenanceWindow], field: str) -> tuple[Window, ...]:
    """Return the windows of a spec. Raises BadWindow, which names the place below `field`."""
    found = []
    for number, item in enumerate(items):
        try:
            found.append(parse_window(item.schedule, item.length, item.time_zone))
        except BadWindow as error:
            raise BadWindow(f"{field}[{number}].{error}") from None
    return tuple(found)
