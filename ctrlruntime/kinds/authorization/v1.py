"""Typed kinds of authorization/v1. Made by `make kinds`; changes here are lost."""

from __future__ import annotations

from pydantic import Field

from ctrlruntime.kinds.base import BuiltinKind, BuiltinModel
from ctrlruntime.kinds.meta.v1 import FieldSelectorRequirement, LabelSelectorRequirement

__all__ = [
    "FieldSelectorAttributes",
    "LabelSelectorAttributes",
    "LocalSubjectAccessReview",
    "NonResourceAttributes",
    "NonResourceRule",
    "ResourceAttributes",
    "ResourceRule",
    "SelfSubjectAccessReview",
    "SelfSubjectAccessReviewSpec",
    "SelfSubjectRulesReview",
    "SelfSubjectRulesReviewSpec",
    "SubjectAccessReview",
    "SubjectAccessReviewSpec",
    "SubjectAccessReviewStatus",
    "SubjectRulesReviewStatus",
]


class NonResourceAttributes(BuiltinModel):
    """NonResourceAttributes of authorization/v1."""

    path: str | None = None
    verb: str | None = None


class FieldSelectorAttributes(BuiltinModel):
    """FieldSelectorAttributes of authorization/v1."""

    raw_selector: str | None = None
    requirements: list[FieldSelectorRequirement] = Field(default_factory=list)


class LabelSelectorAttributes(BuiltinModel):
    """LabelSelectorAttributes of authorization/v1."""

    raw_selector: str | None = None
    requirements: list[LabelSelectorRequirement] = Field(default_factory=list)


class ResourceAttributes(BuiltinModel):
    """ResourceAttributes of authorization/v1."""

    field_selector: FieldSelectorAttributes | None = None
    group: str | None = None
    label_selector: LabelSelectorAttributes | None = None
    name: str | None = None
    namespace: str | None = None
    resource: str | None = None
    subresource: str | None = None
    verb: str | None = None
    version: str | None = None


class SubjectAccessReviewSpec(BuiltinModel):
    """SubjectAccessReviewSpec of authorization/v1."""

    extra: dict[str, list[str]] = Field(default_factory=dict)
    groups: list[str] = Field(default_factory=list)
    non_resource_attributes: NonResourceAttributes | None = None
    resource_attributes: ResourceAttributes | None = None
    uid: str | None = None
    user: str | None = None


class SubjectAccessReviewStatus(BuiltinModel):
    """SubjectAccessReviewStatus of authorization/v1."""

    allowed: bool | None = None
    denied: bool | None = None
    evaluation_error: str | None = None
    reason: str | None = None


class LocalSubjectAccessReview(
    BuiltinKind[SubjectAccessReviewSpec, SubjectAccessReviewStatus],
    group="authorization.k8s.io",
    version="v1",
):
    """LocalSubjectAccessReview of authorization/v1."""


class SelfSubjectAccessReviewSpec(BuiltinModel):
    """SelfSubjectAccessReviewSpec of authorization/v1."""

    non_resource_attributes: NonResourceAttributes | None = None
    resource_attributes: ResourceAttributes | None = None


class SelfSubjectAccessReview(
    BuiltinKind[SelfSubjectAccessReviewSpec, SubjectAccessReviewStatus],
    group="authorization.k8s.io",
    version="v1",
    scope="Cluster",
):
    """SelfSubjectAccessReview of authorization/v1."""


class SelfSubjectRulesReviewSpec(BuiltinModel):
    """SelfSubjectRulesReviewSpec of authorization/v1."""

    namespace: str | None = None


class NonResourceRule(BuiltinModel):
    """NonResourceRule of authorization/v1."""

    non_resource_urls: list[str] = Field(
        default_factory=list,
        validation_alias="nonResourceURLs",
        serialization_alias="nonResourceURLs",
    )
    verbs: list[str]


class ResourceRule(BuiltinModel):
    """ResourceRule of authorization/v1."""

    api_groups: list[str] = Field(default_factory=list)
    resource_names: list[str] = Field(default_factory=list)
    resources: list[str] = Field(default_factory=list)
    verbs: list[str]


class SubjectRulesReviewStatus(BuiltinModel):
    """SubjectRulesReviewStatus of authorization/v1."""

    evaluation_error: str | None = None
    incomplete: bool | None = None
    non_resource_rules: list[NonResourceRule] = Field(default_factory=list)
    resource_rules: list[ResourceRule] = Field(default_factory=list)


class SelfSubjectRulesReview(
    BuiltinKind[SelfSubjectRulesReviewSpec, SubjectRulesReviewStatus],
    group="authorization.k8s.io",
    version="v1",
    scope="Cluster",
):
    """SelfSubjectRulesReview of authorization/v1."""


class SubjectAccessReview(
    BuiltinKind[SubjectAccessReviewSpec, SubjectAccessReviewStatus],
    group="authorization.k8s.io",
    version="v1",
    scope="Cluster",
):
    """SubjectAccessReview of authorization/v1."""
