"""A control for objects in another cluster than their owners'."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ctrlruntime.api.kinds import Manifest, RESTMapping
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.client import Propagation
from ctrlruntime.client.errors import APIError
from ctrlruntime.cluster.cluster import Cluster
from ctrlruntime.gate import Permit
from ctrlruntime.resources.control import Control
from ctrlruntime.resources.desired import Desired
from ctrlruntime.resources.diff import Diff
from ctrlruntime.resources.outcome import Outcome
from ctrlruntime.resources.ownership import OWNER, OWNER_UID, Owner, OwnershipResult


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotePlacement:
    """The owners' cluster, and what objects in the other one have instead of an owner reference."""

    owner_cluster: str
    """The id of the owners' cluster: the end of their keys."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of every object."""

    def owner(self, owner: Owner) -> Owner:
        """Return the owner with the id of its cluster."""
        return replace(owner, cluster=self.owner_cluster)

    def desired(self, desired: Desired) -> Desired:
        """Return the object with the labels, and without an owner reference."""
        return replace(desired, reference=False, labels={**desired.labels, **self.labels})

    def records(self, owner: Owner) -> dict[str, str]:
        """Return the annotations that name the owner."""
        return {OWNER: self.owner(owner).key, OWNER_UID: owner.uid}

    def body(self, desired: Desired, owner: Owner) -> Manifest:
        """Return the object as it is written for an owner."""
        return self.desired(desired).body(self.owner(owner))


class RemoteControl(Control):
    """Takes owners and desired objects as a Control does, and writes them to another cluster.

    The owner's key ends with the id of its own cluster, objects have `labels` and no owner reference: the
    garbage collector of their cluster would delete them. So nothing there goes with its owner by itself, and
    the owner needs a finalizer. With a cache that selects the labels, an object of that name that it does not
    have is a conflict which names its holder.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        owner_cluster: str,
        labels: Mapping[str, str],
        field_manager: str,
        alive: Callable[[str], bool] = lambda _uid: False,
    ) -> None:
        """`owner_cluster`: the id of the owners' cluster; `labels`: of every object; the rest as for a Control."""
        super().__init__(cluster, field_manager=field_manager, alive=alive)
        self._placement = RemotePlacement(owner_cluster=owner_cluster, labels=dict(labels))

    def recorded(self, owner: Owner) -> Owner:
        """Return the owner with the id of its cluster."""
        return self._placement.owner(owner)

    def _placed(self, desired: Desired) -> Desired:
        return self._placement.desired(desired)

    def judge(self, entry: Entry, owner: Owner) -> OwnershipResult:
        """Whose `entry` is."""
        return super().judge(entry, self.recorded(owner))

    def compare(self, current: Iterable[Entry], desired: Iterable[Desired], owner: Owner) -> Diff:
        """Return what separates `current` from `desired`. No request is made."""
        return super().compare(current, map(self._placed, desired), self.recorded(owner))

    def pending(
        self, desired: Desired, owner: Owner, *, wrote: bool = False, current: bool = False
    ) -> bool:
        """Whether `ensure` would write or report anything but `unchanged`."""
        placed, recorded = self._placed(desired), self.recorded(owner)
        return super().pending(placed, recorded, wrote=wrote, current=current)

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
        placed, recorded = self._placed(desired), self.recorded(owner)
        return await super().ensure(placed, recorded, wrote=wrote, current=current, over=over)

    async def reclaim(self, desired: Desired, owner: Owner) -> Outcome | None:
        """Put the labels back that the cache selects by, on an object of the owner that has lost them."""
        return await super().reclaim(self._placed(desired), self.recorded(owner))

    async def refuses_new(self, desired: Desired, owner: Owner) -> APIError | None:
        """Return why the server would not take the content as a new object; None: it would."""
        return await super().refuses_new(self._placed(desired), self.recorded(owner))

    async def delete(
        self,
        mapping: RESTMapping,
        entry: Entry,
        owner: Owner,
        permit: Permit,
        *,
        propagation: Propagation = "Background",
    ) -> bool:
        """Delete an own object. Returns False, and does nothing, for any other."""
        recorded = self.recorded(owner)
        return await super().delete(mapping, entry, recorded, permit, propagation=propagation)

    async def release(
        self,
        mapping: RESTMapping,
        entry: Entry,
        owner: Owner,
        permit: Permit,
        *,
        labels: dict[str, Any],
        annotations: dict[str, Any],
    ) -> bool:
        """Release an own object without deleting it; its key and labels stay."""
        recorded = self.recorded(owner)
        return await super().release(
            mapping, entry, recorded, permit, labels=labels, annotations=annotations
        )
