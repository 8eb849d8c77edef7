"""InstanceKubernetes: what runs in an instance's cluster."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ctrlruntime.api import ApiModel, Resource

from .columns import progress_columns
from .common import GROUP, VERSION, TaskStatus
from .instance_cluster import Cluster

__all__ = ["InstanceKubernetes", "InstanceKubernetesSpec"]


class InstanceKubernetesSpec(ApiModel):
    """What of an instance its workload depends on. Written by the instance."""

    version: Annotated[str, Field(min_length=1)]
    """Version of the application to run."""
    domain: str | None = None
    """Name the instance is reached by."""
    cluster: Cluster = Field(default_factory=Cluster)
    """Its cluster and what runs there; disks are not part of it."""
    bundle_revision: str = ""
    """Hash over the contents of the bundle's ConfigMaps, so that a change of theirs is one of this."""
    outputs: dict[str, str] = Field(default_factory=dict)
    """Outputs of the infrastructure."""
    outputs_secret_name: str = ""
    """Secret with the outputs of the infrastructure that must not be seen."""


class InstanceKubernetes(
    Resource[InstanceKubernetesSpec, TaskStatus],
    group=GROUP,
    version=VERSION,
    plural="instancekubernetes",
    categories=("cloud",),
    print_columns=progress_columns(version=".spec.version"),
):
    """The workload of one instance in its cluster."""
