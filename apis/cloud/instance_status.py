"""The status of an Instance."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from apis.approvals import ApprovalsStatus
from apis.deletions import Removals
from ctrlruntime.api import ApiModel, Conditions, ListMap, MicroTime

from .common import Phase, Waiting

__all__ = [
    "AssignedChange",
    "AssignedVersion",
    "ChildSummary",
    "GCPStatus",
    "InstanceStatus",
    "NamedResource",
]


class NamedResource(ApiModel):
    """Something with a name that is known only once it exists."""

    name: str
    """The name."""


class GCPStatus(ApiModel):
    """What is known of Google Cloud after the infrastructure was built."""

    project_id: str = ""
    """Project."""
    region: str = ""
    """Region."""
    gke_clusters: list[NamedResource] = Field(default_factory=list)
    """Clusters."""
    cloud_sql: list[NamedResource] = Field(default_factory=list, alias="cloudSQL")
    """Databases."""


class ChildSummary(ApiModel):
    """One subresource."""

    kind: str
    """Kind."""
    name: str
    """Name."""
    phase: Phase = Phase.PENDING
    """Where it stands."""
    ready: bool = False
    """Whether its current inputs have been carried out."""
    message: str = ""
    """What it reports."""
    run_id: str = Field(default="", alias="runID")
    """Its run under way, or else its last one."""
    run_lost: bool = False
    """Whether the Pod or node of that run was lost, for the first time with these inputs: no version is the cause."""


class AssignedChange(ApiModel):
    """The change by which a rollout assigned a version."""

    kind: str
    """What it was, such as `RollOut` or `RollBack`."""
    at: str
    """When it was, to the microsecond."""
    previous: str = ""
    """The version that a rollback returns to."""
    refused: str = ""
    """Of a rollback, the version that was left."""
    irreversible: bool = False
    """Whether a rollback leaves the instance in this version."""
    fix: bool = False
    """Whether the instance had failed before."""


class AssignedVersion(ApiModel):
    """A version that stands in place of the spec's."""

    version: str
    """The version."""
    rollout: str = ""
    """The FleetRollout that assigned it."""
    spec_version: str = ""
    """The version of the spec at that time. Once the spec has another one, the spec counts again."""
    assigned_at: MicroTime | None = None
    """When it was assigned."""
    change: AssignedChange | None = None
    """What the rollout did, so that its record can be restored."""
    message: str = ""
    """Why, in one sentence."""
    ready_generation: int = 0
    """The generation of the instance when it was first ready in this version; 0: it was not yet."""
    ready_inputs: str = ""
    """Digest of what it shares with other instances, a bundle and a type of infrastructure, as it was then."""
    given_inputs: str = ""
    """The same digest as the assignment found it."""
    inputs: str = ""
    """The same digest now."""
    waited_until: MicroTime | None = None
    """When a run last stopped waiting for its turn, an approval or the end of a pause, or what it shares changed."""


class InstanceStatus(ApiModel):
    """What the deployment is."""

    observed_generation: int = 0
    """The generation that the status was computed for."""
    phase: Phase = Phase.PENDING
    """Where it stands."""
    message: str = ""
    """One sentence: what is going on, or what to do."""
    version: str = ""
    """Version that is deployed."""
    assigned_version: AssignedVersion | None = None
    """The version that a rollout assigned in place of the spec's; none: the spec counts."""
    release_assignment: str = ""
    """What a FleetRollout assigned last, as JSON. Only the manager writes it; the annotation of that name repeats it."""
    task: str = ""
    """The task under way."""
    waiting: Waiting | None = None
    """What that task waits for."""
    children: Annotated[list[ChildSummary], ListMap("kind", "name")] = Field(default_factory=list)
    """The subresources, in the order in which they are carried out."""
    outputs: dict[str, str] = Field(default_factory=dict)
    """What the subresources handed back."""
    records: dict[str, dict[str, str]] = Field(default_factory=dict)
    """By kind, what identifies what a subresource left behind. It outlives a subresource that is deleted by hand."""
    domains: list[str] = Field(default_factory=list)
    """Names that no other instance may take: those of the spec, and earlier ones until they are given
    up by the infrastructure."""
    gcp: GCPStatus | None = None
    """What is known of Google Cloud after the infrastructure was built."""
    conditions: Conditions = Field(default_factory=list)
    """Ready, and what stands in its way."""
    approvals: ApprovalsStatus | None = None
    """Whose approvals are needed, and who gave those that counted."""
    removals: Removals | None = None
    """Which teardown was approved."""
    last_handled_retry: str = ""
    """The value of the annotation that requests a retry when it was last carried out."""
    last_handled_reconcile: str = ""
    """The value of the annotation ctrlruntime.dev/reconcile-now that was last carried out."""
