"""Which clusters a watch is for."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, TypeAlias, Union

if TYPE_CHECKING:
    from ctrlruntime.cluster.cluster import Cluster

LOCAL_NAME = ""
"""The name of a manager's own cluster."""


class ClusterSet(Enum):
    """Clusters by how the manager has them; multicluster-runtime's `EngageWithLocalCluster` and `EngageWithProviderClusters`."""

    LOCAL = "local"
    """The manager's own."""
    ENGAGED = "engaged"
    """Every cluster that the manager engages, now or later."""
    ALL = "all"
    """Both."""


ClusterRef: TypeAlias = Union["Cluster", str, ClusterSet]
"""One cluster, by itself or by its name, or a :class:`ClusterSet`. The empty name is the manager's own."""


class ClusterNotFound(LookupError):
    """No cluster of this name is engaged. Raised in a reconcile, it drops requests of that cluster."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"no cluster {name!r} is engaged: it was disengaged, or engage() was not called for it yet"
        )
        self.name = name


def normalized(ref: ClusterRef) -> str | ClusterSet:
    """Return the name of a cluster, or the set; the manager's own cluster is ``ClusterSet.LOCAL``."""
    if not isinstance(ref, str | ClusterSet):
        ref = ref.name
    return ClusterSet.LOCAL if ref == LOCAL_NAME else ref


def includes(ref: ClusterRef, name: str) -> bool:
    """Return whether the cluster ``name`` is one of ``ref``."""
    match normalized(ref):
        case ClusterSet.ALL:
            return True
        case ClusterSet.LOCAL:
            return name == LOCAL_NAME
        case ClusterSet.ENGAGED:
            return name != LOCAL_NAME
        case one:
            return name == one
