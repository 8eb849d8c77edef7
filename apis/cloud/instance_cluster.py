"""The cluster of an Instance and what runs there."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from apis.references import Name, SecretKeyRef
from ctrlruntime.api import CEL, ApiModel, Duration, Int32, Quantity, RawExtension

from .common import HTTPRequest

__all__ = ["Bundle", "Cluster", "ClusterValues", "DiskPolicy", "HelmChart"]


class ClusterValues(ApiModel):
    """Overlays."""

    values_files: list[str] = Field(default_factory=list)
    """Files of values in the bundle, later ones win."""


class HelmChart(ApiModel):
    """A Helm chart."""

    chart: Annotated[str, Field(min_length=1)]
    """Chart: its name in the repository, an OCI address or a path in the bundle."""
    repository: str | None = None
    """Address of the repository."""
    version: str | None = None
    """Version of the chart; `${version}` is the instance's."""
    values: RawExtension = Field(default_factory=dict)
    """Values, over those of the values files."""


class Bundle(
    ApiModel,
    rules=(
        CEL(
            "!(has(self.kustomize) && self.kustomize && has(self.helm))",
            message="a bundle is a kustomization or a chart, not both",
        ),
    ),
):
    """What runs in the cluster.

    `${version}`, `${domain}`, `${instance}` and `${outputs.NAME}` are replaced in every string.
    """

    manifests: list[RawExtension] = Field(default_factory=list)
    """Whole manifests."""
    config_map_names: list[Name] = Field(default_factory=list)
    """ConfigMaps beside the instance whose keys are files of manifests or values."""
    kustomize: bool = False
    """The ConfigMaps hold a kustomization."""
    helm: HelmChart | None = None
    """A chart to render."""


class DiskPolicy(ApiModel):
    """How claims grow."""

    claim_selector: dict[str, str] = Field(default_factory=dict)
    """Labels of the claims; all claims of the namespace if empty."""
    usage_threshold_percent: Annotated[Int32, Field(ge=1, le=99)] = 80
    """A claim that is fuller grows."""
    increase_percent: Annotated[Int32, Field(ge=1, le=500)] = 20
    """By how much, of its size."""
    max_size: Quantity
    """No claim grows beyond."""
    cooldown: Duration | None = None
    """Between two steps of one claim; default 6 h, the least that cloud disks allow."""
    period: Duration | None = None
    """How often claims are looked at; by default every 10 min to 6 h, the rarer the more room there is."""
    usage: HTTPRequest
    """Answers `{"claims": [{"name": …, "usedBytes": …, "capacityBytes": …}]}`, such as a Prometheus
    exporter beside the cluster."""


class Cluster(ApiModel):
    """The instance's cluster and what runs there."""

    kubeconfig_from: SecretKeyRef | None = None
    """Kubeconfig of the cluster; default: the output `kubeconfig` of the infrastructure."""
    namespace: Annotated[str, Field(min_length=1, max_length=63)] = "default"
    """Namespace for manifests that name none."""
    bundle: Bundle = Field(default_factory=Bundle)
    """What runs there."""
    values: ClusterValues = Field(default_factory=ClusterValues)
    """Overlays."""
    ready_timeout_seconds: Annotated[Int32, Field(ge=1, le=86400)] = 900
    """How long the workload may take to become ready."""
    drift_period: Duration | None = None
    """How often the bundle is applied again although nothing changed, which restores what was edited or deleted; 1 min at
    least, default: never. In the cluster of the manager itself, that is noticed at once and needs no period."""
    disks: DiskPolicy | None = None
    """Makes claims grow; without it they are left alone."""
