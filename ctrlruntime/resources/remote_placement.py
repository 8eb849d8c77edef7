"""How objects are written that are in another cluster than their owners. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.resources.desired import Desired
from ctrlruntime.resources.ownership import OWNER, OWNER_UID, Owner


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
