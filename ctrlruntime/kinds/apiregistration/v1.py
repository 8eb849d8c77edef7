"""Typed kinds of apiregistration/v1. Made by `make kinds`; changes here are lost."""

from __future__ import annotations

from pydantic import Field

from ctrlruntime.api.scalars import Time
from ctrlruntime.kinds.base import BuiltinKind, BuiltinModel

__all__ = [
    "APIService",
    "APIServiceCondition",
    "APIServiceSpec",
    "APIServiceStatus",
    "ServiceReference",
]


class ServiceReference(BuiltinModel):
    """ServiceReference of apiregistration/v1."""

    name: str | None = None
    namespace: str | None = None
    port: int | None = None


class APIServiceSpec(BuiltinModel):
    """APIServiceSpec of apiregistration/v1."""

    ca_bundle: str | None = None
    group: str | None = None
    group_priority_minimum: int
    insecure_skip_tls_verify: bool | None = Field(
        default=None,
        validation_alias="insecureSkipTLSVerify",
        serialization_alias="insecureSkipTLSVerify",
    )
    service: ServiceReference | None = None
    version: str | None = None
    version_priority: int


class APIServiceCondition(BuiltinModel):
    """APIServiceCondition of apiregistration/v1."""

    last_transition_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str
    type: str


class APIServiceStatus(BuiltinModel):
    """APIServiceStatus of apiregistration/v1."""

    conditions: list[APIServiceCondition] = Field(default_factory=list)


class APIService(
    BuiltinKind[APIServiceSpec, APIServiceStatus],
    group="apiregistration.k8s.io",
    version="v1",
    scope="Cluster",
):
    """APIService of apiregistration/v1."""
