"""The clusters that objects of tenants are written to.

Usually that is the one that has the tenants. In the stack of a data plane it is that, and the hub, where
workloads run: which object goes where is decided by a :class:`Placement`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ctrlruntime.api.kinds import GroupKind, GroupVersionKind, RESTMapping
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.lifecycle.remote import ClusterTrouble
from ctrlruntime.resources import Control, Desired, ObjectKey, Owner
from internal.tenancy.objects.children import ChildKinds
from internal.tenancy.objects.object_reader import ObjectReader
from internal.tenancy.shared.naming import LOCAL

KindMappings = Mapping[str, Mapping[GroupVersionKind, RESTMapping | None]]
"""How kinds are served, by the name of the cluster; None: not served, or not readable."""


class Placement(Protocol):
    """Decides which clusters get an object."""

    def possible(
        self, kinds: Collection[GroupKind], manifests: Iterable[Mapping[str, Any]] = ()
    ) -> Mapping[GroupKind, Collection[str]]:
        """Return the clusters in which objects of the kinds of one tenant may be. `manifests`: its own, unrendered."""
        ...

    def doubts(self, rendered: Sequence[Desired]) -> Mapping[ObjectKey, str]:
        """Return why objects may be in the wrong cluster, each in one sentence."""
        ...

    def clusters_of(self, rendered: Sequence[Desired]) -> Mapping[ObjectKey, tuple[str, ...]]:
        """Return the clusters that get each object, in the order of writing."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetCluster:
    """How objects are read and written in one cluster."""

    control: Control
    patcher: ObjectPatcher
    objects: ObjectReader
    kinds: ChildKinds
    name: str = LOCAL
    owner_cluster: str = ""
    """The id of the tenants' cluster, where this is another: part of the owner's key on objects here."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of every object here."""
    check: Callable[[GroupKind], None] = lambda _kind: None
    """Raises for a kind that must never be written here."""
    explain: Callable[[Exception, str], ClusterTrouble | None] = lambda _error, _namespace: None
    """Return what is wrong with the cluster, from an error of a write in a namespace; None: the object is."""
    unreachable: Callable[[], ClusterTrouble | None] = lambda: None
    """Return that the cluster has not answered for a while; None: it answers."""

    @property
    def is_local(self) -> bool:
        """Whether the tenants are in this cluster."""
        return self.name == LOCAL

    def impersonating(self, user: str | None) -> TargetCluster:
        """Return the same cluster, written to as another user."""
        if user is None:
            return self
        return replace(
            self,
            control=self.control.impersonating(user),
            patcher=self.patcher.impersonating(user),
        )

    def owner(self, owner: Owner) -> Owner:
        """Return the owner as objects here record it."""
        return replace(owner, cluster=self.owner_cluster) if self.owner_cluster else owner

    def desired(self, desired: Desired, mapping: RESTMapping) -> Desired:
        """Return an object as it is written here."""
        if self.is_local:
            return desired
        labels = {**desired.labels, **self.labels}
        return replace(desired, mapping=mapping, reference=False, labels=labels)


@dataclass(frozen=True, slots=True)
class TargetClusters:
    """All of them; the tenants' own comes first."""

    local: TargetCluster
    further: Mapping[str, TargetCluster] = field(default_factory=dict)
    placement: Placement | None = None

    def __iter__(self) -> Iterator[TargetCluster]:
        yield self.local
        yield from self.further.values()

    def __getitem__(self, name: str) -> TargetCluster:
        return self.local if name == LOCAL else self.further[name]

    def possible(
        self, kinds: Collection[GroupKind], manifests: Iterable[Mapping[str, Any]] = ()
    ) -> Mapping[GroupKind, Collection[str]]:
        """Return the clusters in which objects of the kinds of one tenant may be."""
        if self.placement is None:
            return dict.fromkeys(kinds, (LOCAL,))
        return self.placement.possible(kinds, manifests)

    def impersonating(self, user: str | None) -> TargetClusters:
        """Return the same clusters, written to as another user."""
        if user is None:
            return self
        further = {name: each.impersonating(user) for name, each in self.further.items()}
        return TargetClusters(self.local.impersonating(user), further, self.placement)


def any_mapping(mappings: KindMappings, kind: GroupVersionKind) -> RESTMapping | None:
    """Return how a kind is served by the first cluster that serves it."""
    return next((found for each in mappings.values() if (found := each.get(kind))), None)
