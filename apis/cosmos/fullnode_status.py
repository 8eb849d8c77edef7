"""The status of a CosmosFullNode."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from apis.approvals import ApprovalsStatus
from apis.deletions import Removals
from apis.waiting import ChangesWaiting
from ctrlruntime.api import ApiModel, Conditions, Int32, Quantity, Time

from .common import Height

__all__ = [
    "CosmosFullNodeStatus",
    "FullNodePhase",
    "PVCAutoScaleRequest",
    "RolloutStatus",
    "ScheduledSnapshotStatus",
    "SelfHealingStatus",
    "SyncInfo",
]


class FullNodePhase(StrEnum):
    """Where a set of nodes stands, in one word."""

    COMPLETE = "Complete"
    PROGRESSING = "Progressing"
    WAITING_FOR_P2P_SERVICES = "WaitingForP2PServices"
    """Addresses for peers outside have not been given yet."""
    TRANSIENT_ERROR = "TransientError"
    """Something failed that is likely to pass; it is tried again."""
    ERROR = "Error"
    """A failure that a person has to resolve."""


class SyncInfo(ApiModel):
    """What a node last said of itself."""

    timestamp: Time | None = None
    """When it was asked, to the minute."""
    height: Height | None = None
    """Its last block."""
    in_sync: bool | None = None
    """Whether it has caught up."""
    disk_used_percentage: Int32 | None = None
    """What is used of its disk."""
    error: str | None = None
    """Why nothing is known."""


class ScheduledSnapshotStatus(ApiModel):
    """A node that is down so that its disk can be copied."""

    pod_candidate: str
    """Name of its Pod."""
    since: Time | None = None
    """When it was asked for."""


class PVCAutoScaleRequest(ApiModel):
    """A disk that is to grow."""

    requested_size: Quantity
    """To what size."""
    requested_at: Time
    """When it was asked for."""


class SelfHealingStatus(ApiModel):
    """What is being fixed."""

    pvc_auto_scaler: dict[str, PVCAutoScaleRequest] = Field(
        default_factory=dict, alias="pvcAutoScaler"
    )
    """Disks that are to grow, by name of the claim."""


class RolloutStatus(ApiModel):
    """How far a change is."""

    outdated: Int32 = 0
    """Pods that are not as they should be."""
    budget: Int32 = 0
    """How many of them may be taken down now."""
    blocked: str = ""
    """Why none may, in words."""
    failed: Int32 = 0
    """With strategy.haltOnFailures: Pods that are as the spec requests, and have failed."""
    halted: str = ""
    """Why the rollout is halted; empty: it is not."""
    fixes: list[str] = Field(default_factory=list)
    """With strategy.haltOnFailures: Pods that had failed before their last change. Until they work, they do not count
    as failed."""


class CosmosFullNodeStatus(ApiModel):
    """What became of it. Every writer writes only its own fields."""

    observed_generation: int = 0
    """The metadata.generation that was looked at last."""
    phase: FullNodePhase | None = None
    """Where the set stands."""
    status: str = ""
    """The same in a sentence."""
    replicas: Int32 = 0
    """Nodes that exist, for the scale subresource."""
    ready_replicas: Int32 = 0
    """Nodes that have caught up."""
    selector: str = ""
    """Labels of the Pods, for the scale subresource."""
    peers: list[str] = Field(default_factory=list)
    """Addresses that peers outside reach the nodes by: `id@host:port`."""
    sync: dict[str, SyncInfo] = Field(default_factory=dict)
    """What the nodes last said, by Pod."""
    height: dict[str, Height] = Field(default_factory=dict)
    """The next height of each node, by Pod; it decides on the version."""
    last_block: Height | None = None
    """The highest block of its nodes, written with what they last said."""
    version: str = ""
    """Tag of the image, or the beginning of its digest, that its nodes are to run at the greatest of these heights; one with
    another image in instanceOverrides runs that."""
    rollout: RolloutStatus = Field(default_factory=RolloutStatus)
    """How far a change is."""
    waiting: ChangesWaiting | None = None
    """Changes that a ChangeFreeze holds."""
    scheduled_snapshot_status: dict[str, ScheduledSnapshotStatus] = Field(default_factory=dict)
    """Nodes that are down for a snapshot, by key of what asked for it."""
    self_healing: SelfHealingStatus = Field(default_factory=SelfHealingStatus)
    """What is being fixed."""
    sidecar_image: str = ""
    """Image beside the nodes where the spec names none; kept so that a new manager changes nothing."""
    approvals: ApprovalsStatus | None = None
    """Whose approvals are needed, and who gave those that counted."""
    removals: Removals | None = None
    """Disks that were permitted to go lately."""
    removals_unknown_since: Time | None = None
    """When this status was found wiped, or restored from a backup, although members were there: until the window has passed
    nothing goes without an approval."""
    conditions: Conditions = Field(default_factory=list)
    """Ready, Progressing, ClaimsAsSpecified, BuilderChangeHeld, CRDsAvailable; DisksFull while disks are nearly
    full and nothing makes them larger; RolloutHalted with
    strategy.haltOnFailures; DeletionsHeld once deletions of disks have waited for an approval."""
    last_handled_reconcile: str = ""
    """The value of the annotation ctrlruntime.dev/reconcile-now that was last carried out."""
