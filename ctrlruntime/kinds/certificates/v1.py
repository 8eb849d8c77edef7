"""Typed kinds of certificates/v1. Made by `make kinds`; changes here are lost."""

from __future__ import annotations

from pydantic import Field

from ctrlruntime.api.scalars import Time
from ctrlruntime.kinds.base import BuiltinKind, BuiltinModel

__all__ = [
    "CertificateSigningRequest",
    "CertificateSigningRequestCondition",
    "CertificateSigningRequestSpec",
    "CertificateSigningRequestStatus",
]


class CertificateSigningRequestSpec(BuiltinModel):
    """CertificateSigningRequestSpec of certificates/v1."""

    expiration_seconds: int | None = None
    extra: dict[str, list[str]] = Field(default_factory=dict)
    groups: list[str] = Field(default_factory=list)
    request: str
    signer_name: str
    uid: str | None = None
    usages: list[str] = Field(default_factory=list)
    username: str | None = None


class CertificateSigningRequestCondition(BuiltinModel):
    """CertificateSigningRequestCondition of certificates/v1."""

    last_transition_time: Time | None = None
    last_update_time: Time | None = None
    message: str | None = None
    reason: str | None = None
    status: str
    type: str


class CertificateSigningRequestStatus(BuiltinModel):
    """CertificateSigningRequestStatus of certificates/v1."""

    certificate: str | None = None
    conditions: list[CertificateSigningRequestCondition] = Field(default_factory=list)


class CertificateSigningRequest(
    BuiltinKind[CertificateSigningRequestSpec, CertificateSigningRequestStatus],
    group="certificates.k8s.io",
    version="v1",
    scope="Cluster",
):
    """CertificateSigningRequest of certificates/v1."""
