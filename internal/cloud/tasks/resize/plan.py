"""Which claims grow, by how much, and which cannot. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum
from typing import Final

COOLDOWN: Final = timedelta(hours=6)
"""Between two steps of one claim, by default."""
_MEBI: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim as it is. Sizes in bytes."""

    name: str
    requested: int
    """What it requests."""
    capacity: int
    """What its volume has, as of its status."""
    used: int | None
    """What is used; None: unknown."""
    expandable: bool
    """Whether its storage class can expand volumes."""
    resized_at: datetime | None = None
    """When it last grew through us."""

    @property
    def percent(self) -> int:
        """How full it is, rounded up."""
        if self.used is None or self.capacity <= 0:
            return 0
        return -(-self.used * 100 // self.capacity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """When claims grow, and how far. Sizes in bytes."""

    threshold: int
    increase: int
    """Per cent of the present size."""
    ceiling: int
    cooldown: timedelta = COOLDOWN


class Verdict(StrEnum):
    """What becomes of a claim."""

    FINE = "Fine"
    GROWS = "Grows"
    RESIZING = "Resizing"
    """An earlier step is not finished."""
    COOLING = "Cooling"
    """It is too full, and grew not long ago."""
    CEILING = "Ceiling"
    """It is too full, and as large as it may be."""
    CANNOT_EXPAND = "CannotExpand"
    """It is too full, and its storage class cannot expand."""
    UNKNOWN = "Unknown"
    """Its usage is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of one claim."""

    claim: Claim
    verdict: Verdict
    size: int = 0
    """New size in bytes, if it grows: whole mebibytes."""


def decide(claim: Claim, policy: Policy, now: datetime) -> Decision:
    """Return what becomes of a claim. A claim never shrinks, and never grows beyond the ceiling."""

    def so(verdict: Verdict, size: int = 0) -> Decision:
        return Decision(claim=claim, verdict=verdict, size=size)

    if claim.used is None:
        return so(Verdict.UNKNOWN)
    if claim.percent <= policy.threshold:
        return so(Verdict.FINE)
    if claim.requested > claim.capacity:
        return so(Verdict.RESIZING)
    size = min(policy.ceiling, _larger(claim.requested, policy.increase))
    if size <= claim.requested:
        return so(Verdict.CEILING)
    if not claim.expandable:
        return so(Verdict.CANNOT_EXPAND)
    if claim.resized_at is not None and now < claim.resized_at + policy.cooldown:
        return so(Verdict.COOLING)
    return so(Verdict.GROWS, size)


def _larger(size: int, percent: int) -> int:
    grown = Decimal(size) * (100 + percent) / 100
    return int((grown / _MEBI).to_integral_value(ROUND_CEILING)) * _MEBI


def written(size: int) -> str:
    """Return a size as quantity: in Gi where that is exact, otherwise in Mi or bytes."""
    for unit, name in ((1 << 30, "Gi"), (_MEBI, "Mi")):
        if size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)
