"""What is so, as the state machine needs to know it. Pure data."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ctrlruntime.schedule import Schedule
from internal.cosmos.snapshots.retention import Kept


@dataclass(frozen=True, slots=True)
class Node:
    """A node that is in sync."""

    pod: str
    """Name of its Pod."""
    ordinal: int
    """Its number."""
    claim: str
    """Name of its claim."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of its Pod."""
    losing_disk: bool = False
    """Whether its claim is being deleted, so that the disk goes once the Pod does."""


@dataclass(frozen=True, slots=True)
class Paused:
    """A node that is down because we asked for it."""

    node_set: str
    """Name of the CosmosFullNode."""
    pod: str
    """Name of its Pod."""


@dataclass(frozen=True, slots=True)
class Made:
    """The VolumeSnapshot of the time that is worked on."""

    holder: str = ""
    """The owner, if it is another one."""
    ready: bool = False
    """Whether volumes can be made from it."""
    error: str | None = None
    """The driver's error."""
    status: Mapping[str, Any] = field(default_factory=dict)
    """Its status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The world around one ScheduledVolumeSnapshot, at one moment."""

    name: str
    """Its name."""
    generation: int = 1
    """Its metadata.generation."""
    deleting: bool = False
    """Whether it is being deleted."""
    held: bool = False
    """Whether our finalizer is on it: a node of its may be down."""
    schedule: Schedule | None = None
    """When snapshots are taken."""
    problem: str = ""
    """Why there is no schedule."""
    deprecated: bool = False
    """Whether the spec gives a field that is ignored: fullNodeRef.namespace."""
    served: bool = True
    """Whether the cluster serves VolumeSnapshots."""
    node_set: bool = True
    """Whether the set of nodes exists, and is to stay."""
    has_pinned: bool = True
    """Whether the set has the node that the spec names; also where it names none."""
    synced: tuple[Node, ...] = ()
    """Nodes in sync for long enough, by ordinal."""
    budget: int = 1
    """Nodes that may be taken down now without breaking the set's rollout strategy."""
    asked: bool = True
    """Whether all nodes were polled: otherwise it is unknown yet which of them to take."""
    paused: tuple[Paused, ...] = ()
    """Nodes that are down for us."""
    without_class: bool = False
    """Whether it is certain that the VolumeSnapshotClass does not exist."""
    others: tuple[str, ...] = ()
    """Who else has a node of the set down, in words."""
    pod_gone: bool = False
    """Whether there is no Pod of the candidate's name, not even one that is ending."""
    wanted: bool = True
    """Whether the candidate is a node that the set wants."""
    back: bool = False
    """Whether the candidate's Pod is in sync."""
    height: int = 0
    """Next height of the candidate; 0 if it is unknown."""
    made: Made | None = None
    """The VolumeSnapshot, if it exists."""
    kept: tuple[Kept, ...] = ()
    """Our VolumeSnapshots of this set of nodes, by certain evidence."""
