"""Typed kinds of flowcontrol/v1. Made by `make kinds`; changes here are lost."""

from __future__ import annotations

from pydantic import Field

from ctrlruntime.api.scalars import Time
from ctrlruntime.kinds.base import BuiltinKind, BuiltinModel

__all__ = [
    "ExemptPriorityLevelConfiguration",
    "FlowDistinguisherMethod",
    "FlowSchema",
    "FlowSchemaCondition",
    "FlowSchemaSpec",
    "FlowSchemaStatus",
    "GroupSubject",
    "LimitResponse",
    "LimitedPriorityLevelConfiguration",
    "NonResourcePolicyRule",
    "PolicyRulesWithSubjects",
    "PriorityLevelConfiguration",
    "PriorityLevelConfigurationCondition",
    "PriorityLevelConfigurationReference",
    "PriorityLevelConfigurationSpec",
    "PriorityLevelConfigurationStatus",
    "QueuingConfiguration",
    "ResourcePolicyRule",
    "ServiceAccountSubject",
    "Subject",
    "UserSubject",
]


class FlowDistinguisherMethod(BuiltinModel):
    """FlowDistinguisherMethod of flowcontrol/v1."""

    type: str


class PriorityLevelConfigurationReference(BuiltinModel):
    """PriorityLevelConfigurationReference of flowcontrol/v1."""

    name: str


class NonResourcePolicyRule(BuiltinModel):
    """NonResourcePolicyRule of flowcontrol/v1."""

    non_resource_urls: list[str] = Field(
        validation_alias="nonResourceURLs", serialization_alias="nonResourceURLs"
    )
    verbs: list[str]


class ResourcePolicyRule(BuiltinModel):
    """ResourcePolicyRule of flowcontrol/v1."""

    api_groups: list[str]
    cluster_scope: bool | None = None
    namespaces: list[str] = Field(default_factory=list)
    resources: list[str]
    verbs: list[str]


class GroupSubject(BuiltinModel):
    """GroupSubject of flowcontrol/v1."""

    name: str


class ServiceAccountSubject(BuiltinModel):
    """ServiceAccountSubject of flowcontrol/v1."""

    name: str
    namespace: str


class UserSubject(BuiltinModel):
    """UserSubject of flowcontrol/v1."""

    name: str


class Subject(BuiltinModel):
    """Subject of flowcontrol/v1."""

    group: GroupSubject | None = None
    kind: str
    service_account: ServiceAccountSubject | None = None
    user: UserSubject | None = None


class PolicyRulesWithSubjects(BuiltinModel):
    """PolicyRulesWithSubjects of flowcontrol/v1."""

    non_resource_rules: list[NonResourcePolicyRule] = Field(default_factory=list)
    resource_rules: list[ResourcePolicyRule] = Field(default_factory=list)
    subjects: list[Subject]


class FlowSchemaSpec(BuiltinModel):
    """FlowSchemaSpec of flowcontrol/v1."""

    distinguisher_method: FlowDistinguisherMethod | None = None
    matching_precedence: int | None = None
    priority_level_configuration: PriorityLevelConfigurationReference
    rules: list[PolicyRulesWithSubjects] = Field(default_factory=list)


class FlowSchemaCondition(BuiltinModel):
    """FlowSchemaCondition of flowcontrol/v1."""

    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str | None = None
    type: str | None = None


class FlowSchemaStatus(BuiltinModel):
    """FlowSchemaStatus of flowcontrol/v1."""

    conditions: list[FlowSchemaCondition] = Field(default_factory=list)


class FlowSchema(
    BuiltinKind[FlowSchemaSpec, FlowSchemaStatus],
    group="flowcontrol.apiserver.k8s.io",
    version="v1",
    scope="Cluster",
):
    """FlowSchema of flowcontrol/v1."""


class ExemptPriorityLevelConfiguration(BuiltinModel):
    """ExemptPriorityLevelConfiguration of flowcontrol/v1."""

    lendable_percent: int | None = None
    nominal_concurrency_shares: int | None = None


class QueuingConfiguration(BuiltinModel):
    """QueuingConfiguration of flowcontrol/v1."""

    hand_size: int | None = None
    queue_length_limit: int | None = None
    queues: int | None = None


class LimitResponse(BuiltinModel):
    """LimitResponse of flowcontrol/v1."""

    queuing: QueuingConfiguration | None = None
    type: str


class LimitedPriorityLevelConfiguration(BuiltinModel):
    """LimitedPriorityLevelConfiguration of flowcontrol/v1."""

    borrowing_limit_percent: int | None = None
    lendable_percent: int | None = None
    limit_response: LimitResponse | None = None
    nominal_concurrency_shares: int | None = None


class PriorityLevelConfigurationSpec(BuiltinModel):
    """PriorityLevelConfigurationSpec of flowcontrol/v1."""

    exempt: ExemptPriorityLevelConfiguration | None = None
    limited: LimitedPriorityLevelConfiguration | None = None
    type: str


class PriorityLevelConfigurationCondition(BuiltinModel):
    """PriorityLevelConfigurationCondition of flowcontrol/v1."""

    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str | None = None
    type: str | None = None


class PriorityLevelConfigurationStatus(BuiltinModel):
    """PriorityLevelConfigurationStatus of flowcontrol/v1."""

    conditions: list[PriorityLevelConfigurationCondition] = Field(default_factory=list)


class PriorityLevelConfiguration(
    BuiltinKind[PriorityLevelConfigurationSpec, PriorityLevelConfigurationStatus],
    group="flowcontrol.apiserver.k8s.io",
    version="v1",
    scope="Cluster",
):
    """PriorityLevelConfiguration of flowcontrol/v1."""
