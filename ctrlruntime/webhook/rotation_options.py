"""When certificates are replaced; apart from what makes them, so that options need no cryptography."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationOptions:
    """How long certificates last, and how long before their end they are replaced."""

    authority_lifetime: timedelta = timedelta(days=365)
    authority_renewal: timedelta = timedelta(days=120)
    """How long before its end an authority is followed by another."""
    serving_lifetime: timedelta = timedelta(days=90)
    serving_renewal: timedelta = timedelta(days=30)
    """How long before its end a serving certificate is replaced."""
    overlap: timedelta = timedelta(days=1)
    """How long the authority before stays trusted, for replicas and API servers that lag behind."""

    def __post_init__(self) -> None:
        if not timedelta(0) < self.authority_renewal < self.authority_lifetime:
            raise ValueError("authority_renewal lies between 0 and authority_lifetime")
        if not timedelta(0) < self.serving_renewal < self.serving_lifetime:
            raise ValueError("serving_renewal lies between 0 and serving_lifetime")
        if self.serving_lifetime > self.authority_renewal:
            raise ValueError("serving_lifetime is at most authority_renewal: none is cut short")
        if not timedelta(0) <= self.overlap < self.authority_renewal:
            raise ValueError("overlap is shorter than authority_renewal: who is trusted is valid")
