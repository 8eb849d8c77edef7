"""Typed kinds of coordination/v1. Made by `make kinds`; changes here are lost."""

from __future__ import annotations

from ctrlruntime.api.resource import NoStatus
from ctrlruntime.api.scalars import MicroTime
from ctrlruntime.kinds.base import BuiltinKind, BuiltinModel

__all__ = ["Lease", "LeaseSpec"]


class LeaseSpec(BuiltinModel):
    """LeaseSpec of coordination/v1."""

    acquire_time: MicroTime | None = None
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    preferred_holder: str | None = None
    renew_time: MicroTime | None = None
    strategy: str | None = None


class Lease(BuiltinKind[LeaseSpec, NoStatus], group="coordination.k8s.io", version="v1"):
    """Lease of coordination/v1."""
