"""Typed kinds of authentication/v1. Made by `make kinds`; changes here are lost."""

from __future__ import annotations

from pydantic import Field

from ctrlruntime.kinds.base import BuiltinKind, BuiltinModel, SpeclessKind

__all__ = [
    "SelfSubjectReview",
    "SelfSubjectReviewStatus",
    "TokenReview",
    "TokenReviewSpec",
    "TokenReviewStatus",
    "UserInfo",
]


class UserInfo(BuiltinModel):
    """UserInfo of authentication/v1."""

    extra: dict[str, list[str]] = Field(default_factory=dict)
    groups: list[str] = Field(default_factory=list)
    uid: str | None = None
    username: str | None = None


class SelfSubjectReviewStatus(BuiltinModel):
    """SelfSubjectReviewStatus of authentication/v1."""

    user_info: UserInfo | None = None


class SelfSubjectReview(
    SpeclessKind[SelfSubjectReviewStatus],
    group="authentication.k8s.io",
    version="v1",
    scope="Cluster",
):
    """SelfSubjectReview of authentication/v1."""


class TokenReviewSpec(BuiltinModel):
    """TokenReviewSpec of authentication/v1."""

    audiences: list[str] = Field(default_factory=list)
    token: str


class TokenReviewStatus(BuiltinModel):
    """TokenReviewStatus of authentication/v1."""

    audiences: list[str] = Field(default_factory=list)
    authenticated: bool | None = None
    error: str | None = None
    user: UserInfo | None = None


class TokenReview(
    BuiltinKind[TokenReviewSpec, TokenReviewStatus],
    group="authentication.k8s.io",
    version="v1",
    scope="Cluster",
):
    """TokenReview of authentication/v1."""
