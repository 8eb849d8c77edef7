"""Typed kinds of networking/v1. Made by `make kinds`; changes here are lost."""

from __future__ import annotations

from pydantic import Field

from ctrlruntime.api.resource import NoStatus
from ctrlruntime.kinds.base import BuiltinKind, BuiltinModel
from ctrlruntime.kinds.core.v1 import TypedLocalObjectReference
from ctrlruntime.kinds.meta.v1 import Condition, LabelSelector

__all__ = [
    "HTTPIngressPath",
    "HTTPIngressRuleValue",
    "IPAddress",
    "IPAddressSpec",
    "IPBlock",
    "Ingress",
    "IngressBackend",
    "IngressClass",
    "IngressClassParametersReference",
    "IngressClassSpec",
    "IngressLoadBalancerIngress",
    "IngressLoadBalancerStatus",
    "IngressPortStatus",
    "IngressRule",
    "IngressServiceBackend",
    "IngressSpec",
    "IngressStatus",
    "IngressTLS",
    "NetworkPolicy",
    "NetworkPolicyEgressRule",
    "NetworkPolicyIngressRule",
    "NetworkPolicyPeer",
    "NetworkPolicyPort",
    "NetworkPolicySpec",
    "ParentReference",
    "ServiceBackendPort",
    "ServiceCIDR",
    "ServiceCIDRSpec",
    "ServiceCIDRStatus",
]


class ParentReference(BuiltinModel):
    """ParentReference of networking/v1."""

    group: str | None = None
    name: str
    namespace: str | None = None
    resource: str


class IPAddressSpec(BuiltinModel):
    """IPAddressSpec of networking/v1."""

    parent_ref: ParentReference


class IPAddress(
    BuiltinKind[IPAddressSpec, NoStatus], group="networking.k8s.io", version="v1", scope="Cluster"
):
    """IPAddress of networking/v1."""


class ServiceBackendPort(BuiltinModel):
    """ServiceBackendPort of networking/v1."""

    name: str | None = None
    number: int | None = None


class IngressServiceBackend(BuiltinModel):
    """IngressServiceBackend of networking/v1."""

    name: str
    port: ServiceBackendPort | None = None


class IngressBackend(BuiltinModel):
    """IngressBackend of networking/v1."""

    resource: TypedLocalObjectReference | None = None
    service: IngressServiceBackend | None = None


class HTTPIngressPath(BuiltinModel):
    """HTTPIngressPath of networking/v1."""

    backend: IngressBackend
    path: str | None = None
    path_type: str


class HTTPIngressRuleValue(BuiltinModel):
    """HTTPIngressRuleValue of networking/v1."""

    paths: list[HTTPIngressPath]


class IngressRule(BuiltinModel):
    """IngressRule of networking/v1."""

    host: str | None = None
    http: HTTPIngressRuleValue | None = None


class IngressTLS(BuiltinModel):
    """IngressTLS of networking/v1."""

    hosts: list[str] = Field(default_factory=list)
    secret_name: str | None = None


class IngressSpec(BuiltinModel):
    """IngressSpec of networking/v1."""

    default_backend: IngressBackend | None = None
    ingress_class_name: str | None = None
    rules: list[IngressRule] = Field(default_factory=list)
    tls: list[IngressTLS] = Field(default_factory=list)


class IngressPortStatus(BuiltinModel):
    """IngressPortStatus of networking/v1."""

    error: str | None = None
    port: int | None = None
    protocol: str | None = None


class IngressLoadBalancerIngress(BuiltinModel):
    """IngressLoadBalancerIngress of networking/v1."""

    hostname: str | None = None
    ip: str | None = None
    ports: list[IngressPortStatus] = Field(default_factory=list)


class IngressLoadBalancerStatus(BuiltinModel):
    """IngressLoadBalancerStatus of networking/v1."""

    ingress: list[IngressLoadBalancerIngress] = Field(default_factory=list)


class IngressStatus(BuiltinModel):
    """IngressStatus of networking/v1."""

    load_balancer: IngressLoadBalancerStatus | None = None


class Ingress(BuiltinKind[IngressSpec, IngressStatus], group="networking.k8s.io", version="v1"):
    """Ingress of networking/v1."""


class IngressClassParametersReference(BuiltinModel):
    """IngressClassParametersReference of networking/v1."""

    api_group: str | None = None
    kind: str
    name: str
    namespace: str | None = None
    scope: str | None = None


class IngressClassSpec(BuiltinModel):
    """IngressClassSpec of networking/v1."""

    controller: str | None = None
    parameters: IngressClassParametersReference | None = None


class IngressClass(
    BuiltinKind[IngressClassSpec, NoStatus],
    group="networking.k8s.io",
    version="v1",
    scope="Cluster",
):
    """IngressClass of networking/v1."""


class NetworkPolicyPort(BuiltinModel):
    """NetworkPolicyPort of networking/v1."""

    end_port: int | None = None
    port: int | str | None = None
    protocol: str | None = None


class IPBlock(BuiltinModel):
    """IPBlock of networking/v1."""

    cidr: str
    except_: list[str] = Field(
        default_factory=list, validation_alias="except", serialization_alias="except"
    )


class NetworkPolicyPeer(BuiltinModel):
    """NetworkPolicyPeer of networking/v1."""

    ip_block: IPBlock | None = None
    namespace_selector: LabelSelector | None = None
    pod_selector: LabelSelector | None = None


class NetworkPolicyEgressRule(BuiltinModel):
    """NetworkPolicyEgressRule of networking/v1."""

    ports: list[NetworkPolicyPort] = Field(default_factory=list)
    to: list[NetworkPolicyPeer] = Field(default_factory=list)


class NetworkPolicyIngressRule(BuiltinModel):
    """NetworkPolicyIngressRule of networking/v1."""

    from_: list[NetworkPolicyPeer] = Field(
        default_factory=list, validation_alias="from", serialization_alias="from"
    )
    ports: list[NetworkPolicyPort] = Field(default_factory=list)


class NetworkPolicySpec(BuiltinModel):
    """NetworkPolicySpec of networking/v1."""

    egress: list[NetworkPolicyEgressRule] = Field(default_factory=list)
    ingress: list[NetworkPolicyIngressRule] = Field(default_factory=list)
    pod_selector: LabelSelector | None = None
    policy_types: list[str] = Field(default_factory=list)


class NetworkPolicy(
    BuiltinKind[NetworkPolicySpec, NoStatus], group="networking.k8s.io", version="v1"
):
    """NetworkPolicy of networking/v1."""


class ServiceCIDRSpec(BuiltinModel):
    """ServiceCIDRSpec of networking/v1."""

    cidrs: list[str] = Field(default_factory=list)


class ServiceCIDRStatus(BuiltinModel):
    """ServiceCIDRStatus of networking/v1."""

    conditions: list[Condition] = Field(default_factory=list)


class ServiceCIDR(
    BuiltinKind[ServiceCIDRSpec, ServiceCIDRStatus],
    group="networking.k8s.io",
    version="v1",
    scope="Cluster",
):
    """ServiceCIDR of networking/v1."""
