"""The disks of a CosmosFullNode, and what new ones are filled from."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from apis.references import Name
from ctrlruntime.api import CEL, ApiModel

from .common import Metadata
from .shapes import AccessMode, ObjectName, StorageResources

__all__ = [
    "AutoDataSource",
    "DataSource",
    "DataSourceFailure",
    "RetentionPolicy",
    "VolumeClaimTemplate",
]


class RetentionPolicy(StrEnum):
    """What becomes of a claim whose node is no longer wanted."""

    RETAIN = "Retain"
    DELETE = "Delete"


class DataSourceFailure(StrEnum):
    """What is done if a new claim's source of data cannot be had."""

    WAIT = "Wait"
    """The claim is not made until the source is there."""
    CREATE_EMPTY = "CreateEmpty"
    """The claim is made empty."""


class DataSource(ApiModel):
    """What a new claim is filled from."""

    api_group: str | None = None
    """snapshot.storage.k8s.io for a snapshot; none for a claim."""
    kind: Annotated[str, Field(pattern="^(VolumeSnapshot|PersistentVolumeClaim)$")]
    """VolumeSnapshot or PersistentVolumeClaim."""
    name: Name
    """Name, in the same namespace."""


class AutoDataSource(
    ApiModel,
    rules=(
        CEL(
            "(has(self.volumeSnapshotSelector) && size(self.volumeSnapshotSelector) > 0) || "
            "(has(self.matchInstance) && self.matchInstance)",
            message="give volumeSnapshotSelector at least one label, or set matchInstance: an empty selector selects nothing",
        ),
    ),
):
    """Fills new claims from the newest snapshot that is ready."""

    volume_snapshot_selector: dict[str, str] = Field(default_factory=dict)
    """Labels of the snapshots. Without a label, and without matchInstance, none is selected."""
    match_instance: bool = False
    """Take only snapshots of the same node."""
    on_failure: DataSourceFailure = DataSourceFailure.WAIT
    """What is done if there is none."""


class VolumeClaimTemplate(ApiModel):
    """The disk of each node."""

    metadata: Metadata = Field(default_factory=Metadata)
    """Labels and annotations."""
    storage_class_name: ObjectName
    """StorageClass; an existing claim keeps its own."""
    resources: StorageResources
    """`requests.storage`; it grows and never shrinks."""
    access_modes: list[AccessMode] = Field(default_factory=list)
    """Default ReadWriteOnce; an existing claim keeps its own."""
    volume_mode: Annotated[str, Field(pattern="^(Filesystem|Block)$")] | None = None
    """Default Filesystem; an existing claim keeps its own."""
    data_source: DataSource | None = None
    """What a new claim is filled from; before autoDataSource."""
    auto_data_source: AutoDataSource | None = None
    """Fill a new claim from the newest snapshot."""
