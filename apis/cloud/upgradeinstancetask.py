"""UpgradeInstanceTask: one upgrade of an instance."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from apis.references import Name
from ctrlruntime.api import CEL, ApiModel, Resource

from .columns import progress_columns
from .common import GROUP, VERSION, TaskStatus
from .instance import UpgradeSettings
from .instance_cluster import Cluster

__all__ = ["UpgradeInstanceTask", "UpgradeInstanceTaskSpec"]


class UpgradeInstanceTaskSpec(
    ApiModel, rules=(CEL("self == oldSelf", message="an upgrade is used once: make another one"),)
):
    """From which version to which, and how. Written by the instance, which has to be its owner."""

    instance_name: Name
    """The instance, in the same namespace."""
    from_version: str = ""
    """Version that runs."""
    to_version: Annotated[str, Field(min_length=1)]
    """Version to run."""
    domain: str | None = None
    """Name the instance is reached by."""
    cluster: Cluster = Field(default_factory=Cluster)
    """Its cluster and what runs there."""
    steps: UpgradeSettings = Field(default_factory=UpgradeSettings)
    """The steps."""
    outputs: dict[str, str] = Field(default_factory=dict)
    """Outputs of the infrastructure."""
    outputs_secret_name: str = ""
    """Secret with the outputs of the infrastructure that must not be seen."""
    bundle_revision: str = ""
    """Hash over the contents of the bundle's ConfigMaps; empty: not recorded."""


class UpgradeInstanceTask(
    Resource[UpgradeInstanceTaskSpec, TaskStatus],
    group=GROUP,
    version=VERSION,
    plural="upgradeinstancetasks",
    categories=("cloud",),
    print_columns=progress_columns(version=".spec.toVersion"),
):
    """One upgrade of one instance. Used once; its spec cannot be changed."""
