"""Typed kinds of storage/v1. Made by `make kinds`; changes here are lost."""

from __future__ import annotations

from pydantic import Field

from ctrlruntime.api.resource import NoStatus
from ctrlruntime.api.scalars import Time
from ctrlruntime.kinds.base import BuiltinKind, BuiltinModel, SpeclessKind
from ctrlruntime.kinds.core.v1 import PersistentVolumeSpec, TopologySelectorTerm
from ctrlruntime.kinds.meta.v1 import LabelSelector

__all__ = [
    "CSIDriver",
    "CSIDriverSpec",
    "CSINode",
    "CSINodeDriver",
    "CSINodeSpec",
    "CSIStorageCapacity",
    "StorageClass",
    "TokenRequest",
    "VolumeAttachment",
    "VolumeAttachmentSource",
    "VolumeAttachmentSpec",
    "VolumeAttachmentStatus",
    "VolumeAttributesClass",
    "VolumeError",
    "VolumeNodeResources",
]


class TokenRequest(BuiltinModel):
    """TokenRequest of storage/v1."""

    audience: str
    expiration_seconds: int | None = None


class CSIDriverSpec(BuiltinModel):
    """CSIDriverSpec of storage/v1."""

    attach_required: bool | None = None
    fs_group_policy: str | None = None
    node_allocatable_update_period_seconds: int | None = None
    pod_info_on_mount: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None
    requires_republish: bool | None = None
    se_linux_mount: bool | None = None
    service_account_token_in_secrets: bool | None = None
    storage_capacity: bool | None = None
    token_requests: list[TokenRequest] = Field(default_factory=list)
    volume_lifecycle_modes: list[str] = Field(default_factory=list)


class CSIDriver(
    BuiltinKind[CSIDriverSpec, NoStatus], group="storage.k8s.io", version="v1", scope="Cluster"
):
    """CSIDriver of storage/v1."""


class VolumeNodeResources(BuiltinModel):
    """VolumeNodeResources of storage/v1."""

    count: int | None = None


class CSINodeDriver(BuiltinModel):
    """CSINodeDriver of storage/v1."""

    allocatable: VolumeNodeResources | None = None
    name: str
    node_id: str = Field(validation_alias="nodeID", serialization_alias="nodeID")
    topology_keys: list[str] = Field(default_factory=list)


class CSINodeSpec(BuiltinModel):
    """CSINodeSpec of storage/v1."""

    drivers: list[CSINodeDriver]


class CSINode(
    BuiltinKind[CSINodeSpec, NoStatus], group="storage.k8s.io", version="v1", scope="Cluster"
):
    """CSINode of storage/v1."""


class CSIStorageCapacity(SpeclessKind[NoStatus], group="storage.k8s.io", version="v1"):
    """CSIStorageCapacity of storage/v1."""

    capacity: str | None = None
    maximum_volume_size: str | None = None
    node_topology: LabelSelector | None = None
    storage_class_name: str


class StorageClass(SpeclessKind[NoStatus], group="storage.k8s.io", version="v1", scope="Cluster"):
    """StorageClass of storage/v1."""

    allow_volume_expansion: bool | None = None
    allowed_topologies: list[TopologySelectorTerm] = Field(default_factory=list)
    mount_options: list[str] = Field(default_factory=list)
    parameters: dict[str, str] = Field(default_factory=dict)
    provisioner: str
    reclaim_policy: str | None = None
    volume_binding_mode: str | None = None


class VolumeAttachmentSource(BuiltinModel):
    """VolumeAttachmentSource of storage/v1."""

    inline_volume_spec: PersistentVolumeSpec | None = None
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(BuiltinModel):
    """VolumeAttachmentSpec of storage/v1."""

    attacher: str
    node_name: str
    source: VolumeAttachmentSource


class VolumeError(BuiltinModel):
    """VolumeError of storage/v1."""

    error_code: int | None = None
    message: str | None = None
    time: Time | None = None


class VolumeAttachmentStatus(BuiltinModel):
    """VolumeAttachmentStatus of storage/v1."""

    attach_error: VolumeError | None = None
    attached: bool | None = None
    attachment_metadata: dict[str, str] = Field(default_factory=dict)
    detach_error: VolumeError | None = None


class VolumeAttachment(
    BuiltinKind[VolumeAttachmentSpec, VolumeAttachmentStatus],
    group="storage.k8s.io",
    version="v1",
    scope="Cluster",
):
    """VolumeAttachment of storage/v1."""


class VolumeAttributesClass(
    SpeclessKind[NoStatus], group="storage.k8s.io", version="v1", scope="Cluster"
):
    """VolumeAttributesClass of storage/v1."""

    driver_name: str
    parameters: dict[str, str] = Field(default_factory=dict)
