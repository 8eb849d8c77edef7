"""InstanceTerraform: the infrastructure of an instance."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ctrlruntime.api import ApiModel, ListMap, Resource

from .columns import progress_columns
from .common import GROUP, VERSION, TaskStatus
from .instance import CustomDomain
from .instance_infrastructure import Infrastructure

__all__ = ["InstanceTerraform", "InstanceTerraformSpec"]


class InstanceTerraformSpec(ApiModel):
    """What of an instance its infrastructure depends on. Written by the instance."""

    infrastructure: Infrastructure = Field(default_factory=Infrastructure)
    """What it runs on."""
    domain: str | None = None
    """Name the instance is reached by."""
    custom_domains: Annotated[list[CustomDomain], ListMap("dnsName")] = Field(default_factory=list)
    """Further names."""
    instance_features: dict[str, str] = Field(default_factory=dict)
    """Features; those of the lease of an ephemeral instance are not among them."""
    tfc_runs_mode: Annotated[str, Field(pattern="^(cli|vcs)$")] = "cli"
    """Who starts Terraform runs."""


class InstanceTerraform(
    Resource[InstanceTerraformSpec, TaskStatus],
    group=GROUP,
    version=VERSION,
    plural="instanceterraforms",
    categories=("cloud",),
    print_columns=progress_columns(title="Inputs", version=".status.run.inputsVersion"),
):
    """The infrastructure of one instance."""
