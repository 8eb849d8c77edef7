"""A control whose objects have labels that follow from the object and its owner."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Self, TypeAlias

from ctrlruntime.cache.cache import Cache
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import APIError
from ctrlruntime.cluster.cluster import Cluster
from ctrlruntime.resources.control import Control
from ctrlruntime.resources.desired import Desired
from ctrlruntime.resources.diff import Diff
from ctrlruntime.resources.outcome import Outcome
from ctrlruntime.resources.ownership import Owner

LabelsOf: TypeAlias = Callable[[Desired, Owner], Mapping[str, str]]
"""The labels of an object that is written for an owner; the same for the same names, always."""


class LabelledControl(Control):
    """A Control that puts labels on every object that it writes, such as that of the owner's slot.

    Caches may select by them: an object that has lost its label is found by name and gets it back, see `reclaim`.
    Labels are metadata of the object itself: nothing of a Pod template changes, so nothing rolls.
    """

    def __init__(
        self,
        cache: Cache | Cluster,
        *,
        labels: LabelsOf,
        field_manager: str,
        alive: Callable[[str], bool] = lambda _uid: False,
    ) -> None:
        """`labels`: of each object; the rest as for a Control."""
        super().__init__(cache, field_manager=field_manager, alive=alive)
        self._labels = labels

    def without_labels(self) -> Self:
        """Return the same control, memory included, that neither writes the labels nor misses them."""
        other = copy.copy(self)
        other._labels = lambda _desired, _owner: {}
        return other

    def _labelled(self, desired: Desired, owner: Owner) -> Desired:
        labels = self._labels(desired, owner)
        return replace(desired, labels={**desired.labels, **labels}) if labels else desired

    def compare(self, current: Iterable[Entry], desired: Iterable[Desired], owner: Owner) -> Diff:
        """Return what separates `current` from `desired`. No request is made."""
        return super().compare(current, (self._labelled(each, owner) for each in desired), owner)

    def pending(
        self, desired: Desired, owner: Owner, *, wrote: bool = False, current: bool = False
    ) -> bool:
        """Whether `ensure` would write or report anything but `unchanged`."""
        return super().pending(self._labelled(desired, owner), owner, wrote=wrote, current=current)

    async def ensure(
        self,
        desired: Desired,
        owner: Owner,
        *,
        wrote: bool = False,
        current: bool = False,
        over: str = "",
    ) -> Outcome:
        """Create or update one object, if it is not as desired. Raises as a Control does."""
        labelled = self._labelled(desired, owner)
        return await super().ensure(labelled, owner, wrote=wrote, current=current, over=over)

    async def reclaim(self, desired: Desired, owner: Owner) -> Outcome | None:
        """Put the labels back that the cache selects by, on an object of the owner that has lost them."""
        return await super().reclaim(self._labelled(desired, owner), owner)

    async def refuses_new(self, desired: Desired, owner: Owner) -> APIError | None:
        """Return why the server would not take the content as a new object; None: it would."""
        return await super().refuses_new(self._labelled(desired, owner), owner)
