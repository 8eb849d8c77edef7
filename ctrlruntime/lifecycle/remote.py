"""Another cluster, the hub, that has what the objects of this one own: is it known, and what a status shows of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from ctrlruntime.api.conditions import (
    Condition,
    Conditions,
    find_condition,
    new_condition,
    set_condition,
)
from ctrlruntime.cache.informer import Informer
from ctrlruntime.client.errors import APIError

HUB_READY: Final = "HubReady"
"""Condition on a data plane: there once an object had to go to the hub."""
PLACED: Final = "ObjectsPlaced"
UNREADABLE: Final = "KindUnreadable"
"""Reason: the hub answers, and does not let a kind be listed."""


@dataclass(frozen=True, slots=True)
class ClusterTrouble:
    """Why another cluster has not got an object: the reason and the message of a condition."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """Whether objects of the hub are known, and what its errors mean."""

    explain: Callable[[Exception, str], ClusterTrouble | None]
    """Return what is wrong with the hub, from an error of a write in a namespace; None: the object is."""
    unreachable: Callable[[], ClusterTrouble | None]
    """Return that it has not answered for a while; None: it answers."""
    informers: Callable[[], Iterable[Informer]]
    """Those of what is read there."""

    def is_usable(self) -> bool:
        """Whether it answers, and all that is read there has been read: nothing may be decided before."""
        return self.unreachable() is None and self.is_read()

    def is_read(self) -> bool:
        """Whether all that is read there has been read once; that stays known while it does not answer."""
        return not self._unread()

    def trouble(self) -> ClusterTrouble | None:
        """Return why it cannot be used; None where it can, or where that is not known yet."""
        found = self.unreachable()
        if found is not None:
            return found
        for informer in self._unread():
            if isinstance(informer.last_error, APIError):
                return ClusterTrouble(
                    UNREADABLE, f"The hub's {informer.gvk} cannot be read: {informer.last_error}"
                )
        return None

    def _unread(self) -> list[Informer]:
        return [
            each for each in self.informers() if each.missing_since is None and not each.readable
        ]


def hub_condition(troubles: Sequence[ClusterTrouble]) -> Condition:
    """Return the condition: whether the hub takes the objects, and what to do where it does not."""
    if not troubles:
        return new_condition(HUB_READY, True, PLACED, "The hub has what belongs there.")
    first = min(troubles, key=lambda each: (each.reason, each.message))
    return new_condition(HUB_READY, False, first.reason, first.message)


def report_hub(
    conditions: Conditions,
    troubles: Sequence[ClusterTrouble],
    generation: int,
    now: datetime,
    *,
    used: bool,
) -> None:
    """Record the condition. `used`: objects had to go there."""
    before = find_condition(conditions, HUB_READY)
    if not troubles and before is None and not used:
        return
    condition = hub_condition(troubles)
    condition.observed_generation = generation
    set_condition(conditions, condition, now)
