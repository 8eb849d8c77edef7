"""InstanceKubernetesPVC: the disks of an instance."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from apis.references import SecretKeyRef
from ctrlruntime.api import ApiModel, Duration, Resource

from .columns import progress_columns
from .common import GROUP, VERSION, TaskStatus
from .instance_cluster import DiskPolicy

__all__ = ["InstanceKubernetesPVC", "InstanceKubernetesPVCSpec"]


class InstanceKubernetesPVCSpec(ApiModel):
    """What of an instance the size of its disks depends on. Written by the instance."""

    kubeconfig_from: SecretKeyRef | None = None
    """Kubeconfig of the cluster; default: the output `kubeconfig` of the infrastructure."""
    namespace: Annotated[str, Field(min_length=1, max_length=63)] = "default"
    """Namespace of the claims."""
    disks: DiskPolicy
    """How they grow."""
    period: Duration | None = None
    """How often they are looked at; by default every 10 min to 6 h, the rarer the more room there is."""
    outputs_secret_name: str = ""
    """Secret with the outputs of the infrastructure that must not be seen."""


class InstanceKubernetesPVC(
    Resource[InstanceKubernetesPVCSpec, TaskStatus],
    group=GROUP,
    version=VERSION,
    plural="instancekubernetespvcs",
    categories=("cloud",),
    print_columns=progress_columns(title="MaxSize", version=".spec.disks.maxSize"),
):
    """The disks of one instance, which grow as they fill."""
