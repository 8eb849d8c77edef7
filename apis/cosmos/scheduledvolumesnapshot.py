"""ScheduledVolumeSnapshot: regular copies of a node's disk."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from apis.columns import AGE, condition_column
from ctrlruntime.api import ApiModel, Conditions, Int32, PrintColumn, RawExtension, Resource, Time

from .common import GROUP, VERSION
from .shapes import Cron, ObjectName, TimeZone

__all__ = [
    "FullNodeRef",
    "LastSnapshot",
    "PhaseDeadlines",
    "ScheduledVolumeSnapshot",
    "ScheduledVolumeSnapshotSpec",
    "ScheduledVolumeSnapshotStatus",
    "SnapshotCandidate",
    "SnapshotFailures",
    "SnapshotPhase",
]


class SnapshotPhase(StrEnum):
    """The states of the machine."""

    WAITING_FOR_NEXT = "WaitingForNext"
    FINDING_CANDIDATE = "FindingCandidate"
    DELETING_POD = "DeletingPod"
    WAITING_FOR_POD_DELETION = "WaitingForPodDeletion"
    CREATING_SNAPSHOT = "CreatingSnapshot"
    WAITING_FOR_SNAPSHOT_CREATION = "WaitingForSnapshotCreation"
    RESTORING_POD = "RestoringPod"
    WAITING_FOR_POD_RESTORATION = "WaitingForPodRestoration"
    SUSPENDED = "Suspended"
    MISSING_CRDS = "MissingCRDs"
    """The cluster does not serve snapshots; left as soon as it does."""


class FullNodeRef(ApiModel):
    """The nodes whose disks are copied."""

    name: ObjectName
    """Name of the CosmosFullNode, in the same namespace."""
    namespace: str | None = None
    """Deprecated, accepted and ignored: the set is looked up in the namespace of this object."""
    ordinal: Annotated[Int32, Field(ge=0)] | None = None
    """Copy this node's disk only. Default: the first that has caught up."""


class PhaseDeadlines(ApiModel):
    """Seconds after which a phase is given up: the node is restored, and the time is recorded as failed.

    A copy that the driver has cut is kept then: it counts as soon as it is ready.
    """

    finding_candidate: Annotated[Int32, Field(ge=1)] = 600
    """Until a node can be taken."""
    pod_deletion: Annotated[Int32, Field(ge=1)] = 600
    """Until its Pod is gone."""
    snapshot_creation: Annotated[Int32, Field(ge=1)] = 3600
    """Until the snapshot is ready, counted from the last progress that the driver reported. The node is back once it is cut."""
    pod_restoration: Annotated[Int32, Field(ge=1)] = 1800
    """Until the Pod is back; after it the next snapshot is waited for in any case."""


class ScheduledVolumeSnapshotSpec(ApiModel):
    """Which disk, when, and how many copies."""

    full_node_ref: FullNodeRef
    """The nodes."""
    schedule: Cron
    """Cron expression of five fields, or @hourly, @daily, `@every 6h` and so on."""
    time_zone: TimeZone | None = None
    """Time zone of the schedule, such as Europe/Berlin. Default UTC."""
    volume_snapshot_class_name: ObjectName
    """VolumeSnapshotClass."""
    delete_pod: bool = False
    """Stop the node while its disk is copied."""
    min_available: Annotated[Int32, Field(ge=1)] = 2
    """Nodes that have to be in sync before one is taken."""
    limit: Annotated[Int32, Field(ge=1)] = 3
    """Copies that are kept."""
    suspend: bool = False
    """Make no more copies; a node that is down for one is restored."""
    deadlines: PhaseDeadlines = Field(default_factory=PhaseDeadlines)
    """How long each phase may take."""


class SnapshotCandidate(ApiModel):
    """The node that was chosen."""

    pod_name: str
    """Name of its Pod."""
    pvc_name: str = Field(alias="pvcName")
    """Name of its claim."""
    pod_labels: dict[str, str] = Field(default_factory=dict)
    """Labels of its Pod; the snapshot gets them."""


class LastSnapshot(ApiModel):
    """The last copy."""

    name: str
    """Name of the VolumeSnapshot."""
    scheduled_at: Time
    """The time of the schedule that it is for."""
    started_at: Time
    """When it was begun."""
    failed: str = ""
    """Why there is none, in words."""
    status: RawExtension | None = None
    """Status of the VolumeSnapshot."""
    progressed_at: Time | None = None
    """When that status last showed progress: it was bound, cut (creationTime), or became ready."""


class SnapshotFailures(ApiModel):
    """Copies that failed one after the other; none of them counts once one has succeeded."""

    count: Int32
    """How many."""
    message: str
    """Name of the last of them, and why it failed."""
    at: Time
    """When it failed. With deletePod the next attempt waits after a second failure: 10 minutes, then twice as long each time."""


class ScheduledVolumeSnapshotStatus(ApiModel):
    """How far it is."""

    observed_generation: int = 0
    """The metadata.generation that was looked at last."""
    created_at: Time | None = None
    """When the schedule began to count."""
    phase: SnapshotPhase | None = None
    """State of the machine."""
    phase_since: Time | None = None
    """When it came to that state."""
    status: str = ""
    """The same in a sentence."""
    scheduled_at: Time | None = None
    """The time of the schedule that is worked on."""
    next_at: Time | None = None
    """The next time of the schedule."""
    candidate: SnapshotCandidate | None = None
    """The node that was chosen."""
    last_snapshot: LastSnapshot | None = None
    """The last copy."""
    failures: SnapshotFailures | None = None
    """Failures since the last copy that became ready."""
    conditions: Conditions = Field(default_factory=list)
    """Ready, CRDsAvailable, DeprecatedFields."""
    last_handled_reconcile: str = ""
    """The value of the annotation ctrlruntime.dev/reconcile-now that was last carried out."""


class ScheduledVolumeSnapshot(
    Resource[ScheduledVolumeSnapshotSpec, ScheduledVolumeSnapshotStatus],
    group=GROUP,
    version=VERSION,
    plural="scheduledvolumesnapshots",
    categories=("cosmos",),
    short_names=("svs",),
    print_columns=(
        condition_column("Ready", "Ready"),
        PrintColumn("Phase", ".status.phase", "string"),
        PrintColumn("Next", ".status.nextAt", "string"),
        PrintColumn("Last", ".status.lastSnapshot.name", "string"),
        AGE,
        PrintColumn("Message", ".status.status", "string"),
    ),
):
    """Regular copies of a node's disk."""
