"""What a control did to one object."""

from enum import StrEnum
from typing import Final

from ctrlruntime.cache.entry import Entry
from ctrlruntime.fast_dataclass import fast_dataclass
from ctrlruntime.resources.desired import Desired
from ctrlruntime.resources.diff import Foreign, Reason


class Action(StrEnum):
    """What a control did to one object."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    CONFLICT = "conflict"
    """Not touched: another owner holds it, or another manager a desired field."""
    TERMINATING = "terminating"
    """Not touched: it is being deleted, and can be created once it is gone."""
    HELD = "held"
    """Not touched: only a new builder would make it in another way."""


@fast_dataclass(frozen=True, slots=True)
class Outcome:
    """What was done to one desired object, and the object as known afterwards."""

    action: Action
    entry: Entry | None = None
    reason: Reason | None = None
    conflict: str = ""
    """For a conflict: who holds the object or the field, in words."""
    superseded_by_watch: bool = False
    """A later write of another client is known already: no event will tell of a change."""


BELONGS: Final = "it belongs to "


def taken(desired: Desired, outcome: Outcome, entry: Entry) -> Foreign:
    """Return a conflict that came up in writing, as `diff` reports one."""
    holder = outcome.conflict.removeprefix(BELONGS)
    if outcome.reason is not None:
        holder = f"another manager in part ({outcome.conflict})"
    return Foreign(desired, outcome.entry or entry, holder)
