"""The Pods of a CosmosFullNode."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from ctrlruntime.api import CEL, ApiModel, Int32, Manifest, RawExtension

from .common import Metadata
from .shapes import (
    ComputeResources,
    Image,
    LabelValue,
    NamedContainer,
    NamedVolume,
    ObjectName,
    OptionalImage,
    OptionalObjectName,
    PodSpec,
)

__all__ = ["AdditionalPod", "PodTemplate", "ProbeStrategy", "Probes"]


class ProbeStrategy(StrEnum):
    """What makes a Pod ready in the eyes of Kubernetes. Rollouts look at the node itself."""

    NONE = "None"
    REACHABLE = "Reachable"
    """The node answers."""
    IN_SYNC = "InSync"
    """The node answers and has caught up."""


class Probes(ApiModel):
    """Readiness in the eyes of Kubernetes."""

    strategy: ProbeStrategy | None = None
    """What makes a Pod ready. Default: InSync for full nodes, None for sentries, whose signer has to reach them before
    they can be ready."""


class PodTemplate(ApiModel):
    """The Pods of the nodes."""

    metadata: Metadata = Field(default_factory=Metadata)
    """Labels and annotations of the Pods."""
    image: Image | None = None
    """Image with the chain's binary; `chain.versions` goes before it. Required without versions."""
    sidecar_image: OptionalImage | None = None
    """Image of the containers beside the node: health check, disk usage, version check. Default:
    `manager` option --node-sidecar-image at the time the node set was first built."""
    script_image: str | None = None
    """Image that the scripts of `chain` run in. Default: `manager` option --node-script-image, an image with
    curl, wget, jq, lz4 and zstd."""
    image_pull_policy: Annotated[str, Field(pattern="^(Always|Never|IfNotPresent)$")] | None = None
    """When images are pulled."""
    image_pull_secrets: list[RawExtension] = Field(default_factory=list)
    """Secrets with credentials for the images."""
    node_selector: dict[str, LabelValue] = Field(default_factory=dict)
    """Labels of the machines to run on."""
    affinity: RawExtension | None = None
    """Affinity of the Pods."""
    tolerations: list[RawExtension] = Field(default_factory=list)
    """Taints that are tolerated."""
    topology_spread_constraints: list[RawExtension] = Field(default_factory=list)
    """How the nodes are spread over zones or machines; one without labelSelector counts the nodes of the set."""
    scheduler_name: str | None = None
    """Scheduler of the Pods."""
    runtime_class_name: OptionalObjectName | None = None
    """RuntimeClass of the Pods."""
    priority_class_name: OptionalObjectName | None = None
    """PriorityClass of the Pods."""
    priority: Int32 | None = None
    """Priority; admission may refuse it beside a class."""
    resources: ComputeResources | None = None
    """Requests and limits of the container `node`."""
    termination_grace_period_seconds: Annotated[int, Field(ge=0)] | None = None
    """Seconds a node has to end. Default 30."""
    probes: Probes = Field(default_factory=Probes)
    """Readiness in the eyes of Kubernetes."""
    volumes: list[NamedVolume] = Field(default_factory=list)
    """Further volumes; one of a name the manager uses is merged into the manager's (strategic merge)."""
    init_containers: list[NamedContainer] = Field(default_factory=list)
    """Further init containers; one of a name the manager uses is merged into the manager's (strategic merge)."""
    containers: list[NamedContainer] = Field(default_factory=list)
    """Further containers; one of a name the manager uses is merged into the manager's (strategic merge)."""


class AdditionalPod(
    ApiModel,
    rules=(
        CEL(
            "has(self.spec) != has(self.containers)",
            message="write the Pod's spec below spec, or its fields beside name",
        ),
    ),
):
    """A further Pod for each node. The fields of its spec are below `spec`, or beside `name`."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra={"x-kubernetes-preserve-unknown-fields": True}
    )

    name: ObjectName
    """Name; the node's number follows it."""
    metadata: Metadata = Field(default_factory=Metadata)
    """Labels and annotations."""
    spec: PodSpec | None = None
    """The Pod's spec; in its place its fields may be written here."""
    containers: list[NamedContainer] | None = None
    """Containers of the Pod, without `spec`; every other field of a Pod's spec may stand beside them."""
    prefer_same_node: bool = False
    """Prefer the machine that the node runs on."""

    @property
    def pod_spec(self) -> Manifest:
        """The Pod's spec, wherever it is written; empty if it is nowhere."""
        if self.spec is not None:
            return dict(self.spec)
        if self.containers is None:
            return {}
        return {**(self.model_extra or {}), "containers": self.containers}
