"""Typed kinds of rbac/v1. Made by `make kinds`; changes here are lost."""

from __future__ import annotations

from pydantic import Field

from ctrlruntime.api.resource import NoStatus
from ctrlruntime.kinds.base import BuiltinModel, SpeclessKind
from ctrlruntime.kinds.meta.v1 import LabelSelector

__all__ = [
    "AggregationRule",
    "ClusterRole",
    "ClusterRoleBinding",
    "PolicyRule",
    "Role",
    "RoleBinding",
    "RoleRef",
    "Subject",
]


class AggregationRule(BuiltinModel):
    """AggregationRule of rbac/v1."""

    cluster_role_selectors: list[LabelSelector] = Field(default_factory=list)


class PolicyRule(BuiltinModel):
    """PolicyRule of rbac/v1."""

    api_groups: list[str] = Field(default_factory=list)
    non_resource_urls: list[str] = Field(
        default_factory=list,
        validation_alias="nonResourceURLs",
        serialization_alias="nonResourceURLs",
    )
    resource_names: list[str] = Field(default_factory=list)
    resources: list[str] = Field(default_factory=list)
    verbs: list[str]


class ClusterRole(
    SpeclessKind[NoStatus], group="rbac.authorization.k8s.io", version="v1", scope="Cluster"
):
    """ClusterRole of rbac/v1."""

    aggregation_rule: AggregationRule | None = None
    rules: list[PolicyRule] = Field(default_factory=list)


class RoleRef(BuiltinModel):
    """RoleRef of rbac/v1."""

    api_group: str | None = None
    kind: str
    name: str


class Subject(BuiltinModel):
    """Subject of rbac/v1."""

    api_group: str | None = None
    kind: str
    name: str
    namespace: str | None = None


class ClusterRoleBinding(
    SpeclessKind[NoStatus], group="rbac.authorization.k8s.io", version="v1", scope="Cluster"
):
    """ClusterRoleBinding of rbac/v1."""

    role_ref: RoleRef
    subjects: list[Subject] = Field(default_factory=list)


class Role(SpeclessKind[NoStatus], group="rbac.authorization.k8s.io", version="v1"):
    """Role of rbac/v1."""

    rules: list[PolicyRule] = Field(default_factory=list)


class RoleBinding(SpeclessKind[NoStatus], group="rbac.authorization.k8s.io", version="v1"):
    """RoleBinding of rbac/v1."""

    role_ref: RoleRef
    subjects: list[Subject] = Field(default_factory=list)
