"""Typed kinds of admissionregistration/v1. Made by `make kinds`; changes here are lost."""

from __future__ import annotations

from pydantic import Field

from ctrlruntime.api.resource import NoStatus
from ctrlruntime.kinds.base import BuiltinKind, BuiltinModel, SpeclessKind
from ctrlruntime.kinds.meta.v1 import Condition, LabelSelector

__all__ = [
    "AuditAnnotation",
    "ExpressionWarning",
    "MatchCondition",
    "MatchResources",
    "MutatingWebhook",
    "MutatingWebhookConfiguration",
    "NamedRuleWithOperations",
    "ParamKind",
    "ParamRef",
    "RuleWithOperations",
    "ServiceReference",
    "TypeChecking",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingAdmissionPolicyBindingSpec",
    "ValidatingAdmissionPolicySpec",
    "ValidatingAdmissionPolicyStatus",
    "ValidatingWebhook",
    "ValidatingWebhookConfiguration",
    "Validation",
    "Variable",
    "WebhookClientConfig",
]


class ServiceReference(BuiltinModel):
    """ServiceReference of admissionregistration/v1."""

    name: str
    namespace: str
    path: str | None = None
    port: int | None = None


class WebhookClientConfig(BuiltinModel):
    """WebhookClientConfig of admissionregistration/v1."""

    ca_bundle: str | None = None
    service: ServiceReference | None = None
    url: str | None = None


class MatchCondition(BuiltinModel):
    """MatchCondition of admissionregistration/v1."""

    expression: str
    name: str


class RuleWithOperations(BuiltinModel):
    """RuleWithOperations of admissionregistration/v1."""

    api_groups: list[str] = Field(default_factory=list)
    api_versions: list[str] = Field(default_factory=list)
    operations: list[str] = Field(default_factory=list)
    resources: list[str] = Field(default_factory=list)
    scope: str | None = None


class MutatingWebhook(BuiltinModel):
    """MutatingWebhook of admissionregistration/v1."""

    admission_review_versions: list[str]
    client_config: WebhookClientConfig
    failure_policy: str | None = None
    match_conditions: list[MatchCondition] = Field(default_factory=list)
    match_policy: str | None = None
    name: str
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    reinvocation_policy: str | None = None
    rules: list[RuleWithOperations] = Field(default_factory=list)
    side_effects: str
    timeout_seconds: int | None = None


class MutatingWebhookConfiguration(
    SpeclessKind[NoStatus], group="admissionregistration.k8s.io", version="v1", scope="Cluster"
):
    """MutatingWebhookConfiguration of admissionregistration/v1."""

    webhooks: list[MutatingWebhook] = Field(default_factory=list)


class AuditAnnotation(BuiltinModel):
    """AuditAnnotation of admissionregistration/v1."""

    key: str
    value_expression: str


class NamedRuleWithOperations(BuiltinModel):
    """NamedRuleWithOperations of admissionregistration/v1."""

    api_groups: list[str] = Field(default_factory=list)
    api_versions: list[str] = Field(default_factory=list)
    operations: list[str] = Field(default_factory=list)
    resource_names: list[str] = Field(default_factory=list)
    resources: list[str] = Field(default_factory=list)
    scope: str | None = None


class MatchResources(BuiltinModel):
    """MatchResources of admissionregistration/v1."""

    exclude_resource_rules: list[NamedRuleWithOperations] = Field(default_factory=list)
    match_policy: str | None = None
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    resource_rules: list[NamedRuleWithOperations] = Field(default_factory=list)


class ParamKind(BuiltinModel):
    """ParamKind of admissionregistration/v1."""

    api_version: str | None = None
    kind: str | None = None


class Validation(BuiltinModel):
    """Validation of admissionregistration/v1."""

    expression: str
    message: str | None = None
    message_expression: str | None = None
    reason: str | None = None


class Variable(BuiltinModel):
    """Variable of admissionregistration/v1."""

    expression: str
    name: str


class ValidatingAdmissionPolicySpec(BuiltinModel):
    """ValidatingAdmissionPolicySpec of admissionregistration/v1."""

    audit_annotations: list[AuditAnnotation] = Field(default_factory=list)
    failure_policy: str | None = None
    match_conditions: list[MatchCondition] = Field(default_factory=list)
    match_constraints: MatchResources | None = None
    param_kind: ParamKind | None = None
    validations: list[Validation] = Field(default_factory=list)
    variables: list[Variable] = Field(default_factory=list)


class ExpressionWarning(BuiltinModel):
    """ExpressionWarning of admissionregistration/v1."""

    field_ref: str
    warning: str


class TypeChecking(BuiltinModel):
    """TypeChecking of admissionregistration/v1."""

    expression_warnings: list[ExpressionWarning] = Field(default_factory=list)


class ValidatingAdmissionPolicyStatus(BuiltinModel):
    """ValidatingAdmissionPolicyStatus of admissionregistration/v1."""

    conditions: list[Condition] = Field(default_factory=list)
    observed_generation: int | None = None
    type_checking: TypeChecking | None = None


class ValidatingAdmissionPolicy(
    BuiltinKind[ValidatingAdmissionPolicySpec, ValidatingAdmissionPolicyStatus],
    group="admissionregistration.k8s.io",
    version="v1",
    scope="Cluster",
):
    """ValidatingAdmissionPolicy of admissionregistration/v1."""


class ParamRef(BuiltinModel):
    """ParamRef of admissionregistration/v1."""

    name: str | None = None
    namespace: str | None = None
    parameter_not_found_action: str | None = None
    selector: LabelSelector | None = None


class ValidatingAdmissionPolicyBindingSpec(BuiltinModel):
    """ValidatingAdmissionPolicyBindingSpec of admissionregistration/v1."""

    match_resources: MatchResources | None = None
    param_ref: ParamRef | None = None
    policy_name: str
    validation_actions: list[str]


class ValidatingAdmissionPolicyBinding(
    BuiltinKind[ValidatingAdmissionPolicyBindingSpec, NoStatus],
    group="admissionregistration.k8s.io",
    version="v1",
    scope="Cluster",
):
    """ValidatingAdmissionPolicyBinding of admissionregistration/v1."""


class ValidatingWebhook(BuiltinModel):
    """ValidatingWebhook of admissionregistration/v1."""

    admission_review_versions: list[str]
    client_config: WebhookClientConfig
    failure_policy: str | None = None
    match_conditions: list[MatchCondition] = Field(default_factory=list)
    match_policy: str | None = None
    name: str
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    rules: list[RuleWithOperations] = Field(default_factory=list)
    side_effects: str
    timeout_seconds: int | None = None


class ValidatingWebhookConfiguration(
    SpeclessKind[NoStatus], group="admissionregistration.k8s.io", version="v1", scope="Cluster"
):
    """ValidatingWebhookConfiguration of admissionregistration/v1."""

    webhooks: list[ValidatingWebhook] = Field(default_factory=list)
