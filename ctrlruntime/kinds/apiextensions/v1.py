"""Typed kinds of apiextensions/v1. Made by `make kinds`; changes here are lost."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ctrlruntime.api.scalars import Time
from ctrlruntime.kinds.base import BuiltinKind, BuiltinModel

__all__ = [
    "CustomResourceColumnDefinition",
    "CustomResourceConversion",
    "CustomResourceDefinition",
    "CustomResourceDefinitionCondition",
    "CustomResourceDefinitionNames",
    "CustomResourceDefinitionSpec",
    "CustomResourceDefinitionStatus",
    "CustomResourceDefinitionVersion",
    "CustomResourceSubresourceScale",
    "CustomResourceSubresources",
    "CustomResourceValidation",
    "ExternalDocumentation",
    "JSONSchemaProps",
    "SelectableField",
    "ServiceReference",
    "ValidationRule",
    "WebhookClientConfig",
    "WebhookConversion",
]


class ServiceReference(BuiltinModel):
    """ServiceReference of apiextensions/v1."""

    name: str
    namespace: str
    path: str | None = None
    port: int | None = None


class WebhookClientConfig(BuiltinModel):
    """WebhookClientConfig of apiextensions/v1."""

    ca_bundle: str | None = None
    service: ServiceReference | None = None
    url: str | None = None


class WebhookConversion(BuiltinModel):
    """WebhookConversion of apiextensions/v1."""

    client_config: WebhookClientConfig | None = None
    conversion_review_versions: list[str]


class CustomResourceConversion(BuiltinModel):
    """CustomResourceConversion of apiextensions/v1."""

    strategy: str
    webhook: WebhookConversion | None = None


class CustomResourceDefinitionNames(BuiltinModel):
    """CustomResourceDefinitionNames of apiextensions/v1."""

    categories: list[str] = Field(default_factory=list)
    kind: str
    list_kind: str | None = None
    plural: str
    short_names: list[str] = Field(default_factory=list)
    singular: str | None = None


class CustomResourceColumnDefinition(BuiltinModel):
    """CustomResourceColumnDefinition of apiextensions/v1."""

    description: str | None = None
    format: str | None = None
    json_path: str
    name: str
    priority: int | None = None
    type: str


class ExternalDocumentation(BuiltinModel):
    """ExternalDocumentation of apiextensions/v1."""

    description: str | None = None
    url: str | None = None


class ValidationRule(BuiltinModel):
    """ValidationRule of apiextensions/v1."""

    field_path: str | None = None
    message: str | None = None
    message_expression: str | None = None
    optional_old_self: bool | None = None
    reason: str | None = None
    rule: str


class JSONSchemaProps(BuiltinModel):
    """JSONSchemaProps of apiextensions/v1."""

    ref: str | None = Field(default=None, validation_alias="$ref", serialization_alias="$ref")
    schema_: str | None = Field(
        default=None, validation_alias="$schema", serialization_alias="$schema"
    )
    additional_items: Any = None
    additional_properties: Any = None
    all_of: list[JSONSchemaProps] = Field(default_factory=list)
    any_of: list[JSONSchemaProps] = Field(default_factory=list)
    default: Any = None
    definitions: dict[str, JSONSchemaProps] = Field(default_factory=dict)
    dependencies: dict[str, Any] = Field(default_factory=dict)
    description: str | None = None
    enum: list[Any] = Field(default_factory=list)
    example: Any = None
    exclusive_maximum: bool | None = None
    exclusive_minimum: bool | None = None
    external_docs: ExternalDocumentation | None = None
    format: str | None = None
    id: str | None = None
    items: Any = None
    max_items: int | None = None
    max_length: int | None = None
    max_properties: int | None = None
    maximum: float | None = None
    min_items: int | None = None
    min_length: int | None = None
    min_properties: int | None = None
    minimum: float | None = None
    multiple_of: float | None = None
    not_: JSONSchemaProps | None = Field(
        default=None, validation_alias="not", serialization_alias="not"
    )
    nullable: bool | None = None
    one_of: list[JSONSchemaProps] = Field(default_factory=list)
    pattern: str | None = None
    pattern_properties: dict[str, JSONSchemaProps] = Field(default_factory=dict)
    properties: dict[str, JSONSchemaProps] = Field(default_factory=dict)
    required: list[str] = Field(default_factory=list)
    title: str | None = None
    type: str | None = None
    unique_items: bool | None = None
    x_kubernetes_embedded_resource: bool | None = Field(
        default=None,
        validation_alias="x-kubernetes-embedded-resource",
        serialization_alias="x-kubernetes-embedded-resource",
    )
    x_kubernetes_int_or_string: bool | None = Field(
        default=None,
        validation_alias="x-kubernetes-int-or-string",
        serialization_alias="x-kubernetes-int-or-string",
    )
    x_kubernetes_list_map_keys: list[str] = Field(
        default_factory=list,
        validation_alias="x-kubernetes-list-map-keys",
        serialization_alias="x-kubernetes-list-map-keys",
    )
    x_kubernetes_list_type: str | None = Field(
        default=None,
        validation_alias="x-kubernetes-list-type",
        serialization_alias="x-kubernetes-list-type",
    )
    x_kubernetes_map_type: str | None = Field(
        default=None,
        validation_alias="x-kubernetes-map-type",
        serialization_alias="x-kubernetes-map-type",
    )
    x_kubernetes_preserve_unknown_fields: bool | None = Field(
        default=None,
        validation_alias="x-kubernetes-preserve-unknown-fields",
        serialization_alias="x-kubernetes-preserve-unknown-fields",
    )
    x_kubernetes_validations: list[ValidationRule] = Field(
        default_factory=list,
        validation_alias="x-kubernetes-validations",
        serialization_alias="x-kubernetes-validations",
    )


class CustomResourceValidation(BuiltinModel):
    """CustomResourceValidation of apiextensions/v1."""

    open_apiv3_schema: JSONSchemaProps | None = Field(
        default=None, validation_alias="openAPIV3Schema", serialization_alias="openAPIV3Schema"
    )


class SelectableField(BuiltinModel):
    """SelectableField of apiextensions/v1."""

    json_path: str


class CustomResourceSubresourceScale(BuiltinModel):
    """CustomResourceSubresourceScale of apiextensions/v1."""

    label_selector_path: str | None = None
    spec_replicas_path: str
    status_replicas_path: str


class CustomResourceSubresources(BuiltinModel):
    """CustomResourceSubresources of apiextensions/v1."""

    scale: CustomResourceSubresourceScale | None = None
    status: dict[str, Any] = Field(default_factory=dict)


class CustomResourceDefinitionVersion(BuiltinModel):
    """CustomResourceDefinitionVersion of apiextensions/v1."""

    additional_printer_columns: list[CustomResourceColumnDefinition] = Field(default_factory=list)
    deprecated: bool | None = None
    deprecation_warning: str | None = None
    name: str
    schema_: CustomResourceValidation | None = Field(
        default=None, validation_alias="schema", serialization_alias="schema"
    )
    selectable_fields: list[SelectableField] = Field(default_factory=list)
    served: bool
    storage: bool
    subresources: CustomResourceSubresources | None = None


class CustomResourceDefinitionSpec(BuiltinModel):
    """CustomResourceDefinitionSpec of apiextensions/v1."""

    conversion: CustomResourceConversion | None = None
    group: str
    names: CustomResourceDefinitionNames
    preserve_unknown_fields: bool | None = None
    scope: str
    versions: list[CustomResourceDefinitionVersion]


class CustomResourceDefinitionCondition(BuiltinModel):
    """CustomResourceDefinitionCondition of apiextensions/v1."""

    last_transition_time: Time | None = None
    message: str | None = None
    observed_generation: int | None = None
    reason: str | None = None
    status: str
    type: str


class CustomResourceDefinitionStatus(BuiltinModel):
    """CustomResourceDefinitionStatus of apiextensions/v1."""

    accepted_names: CustomResourceDefinitionNames | None = None
    conditions: list[CustomResourceDefinitionCondition] = Field(default_factory=list)
    observed_generation: int | None = None
    stored_versions: list[str] = Field(default_factory=list)


class CustomResourceDefinition(
    BuiltinKind[CustomResourceDefinitionSpec, CustomResourceDefinitionStatus],
    group="apiextensions.k8s.io",
    version="v1",
    scope="Cluster",
):
    """CustomResourceDefinition of apiextensions/v1."""
