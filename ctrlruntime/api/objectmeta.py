"""Typed object metadata."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict, Field, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from .model import ApiModel
from .scalars import Time

__all__ = ["ObjectMeta", "OwnerReference"]


class OwnerReference(ApiModel):
    """The owner of an object, in the same namespace or cluster-scoped (metav1.OwnerReference)."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(ApiModel):
    """Metadata of an object (metav1.ObjectMeta). Fields not named here are kept as they are."""

    model_config = ConfigDict(extra="allow")

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        # An object's own metadata is the server's business; in a spec it is whatever it may become.
        return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

    name: str = ""
    generate_name: str | None = None
    namespace: str = ""
    """Empty for a cluster-scoped object."""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: list[str] = Field(default_factory=list)
    owner_references: list[OwnerReference] = Field(default_factory=list)
    creation_timestamp: Time | None = None
    deletion_timestamp: Time | None = None
    deletion_grace_period_seconds: int | None = None
    managed_fields: list[dict[str, Any]] | None = None
