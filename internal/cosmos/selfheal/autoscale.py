"""Whether a disk is to grow, and to what size. Pure."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from typing import Final

from apis.cosmos import PVCAutoScale, PVCAutoScaleRequest
from ctrlruntime.api.scalars import Quantity
from internal.cosmos.workload.sizes import in_short

_PERCENTAGE: Final = re.compile(r"([0-9]+)%")


class Verdict(StrEnum):
    """What becomes of a disk."""

    GROWS = "Grows"
    """A larger size is asked for."""
    HAS_ROOM = "HasRoom"
    """It is less used than it would have to be."""
    AT_CEILING = "AtCeiling"
    """It is as large as it may become."""
    REQUESTED = "Requested"
    """That size, or more, was asked for already."""
    COOLING = "Cooling"
    """Something was asked for a short time ago."""
    CANNOT_EXPAND = "CannotExpand"
    """Its StorageClass does not let claims grow."""
    INVALID = "Invalid"
    """The spec's increase makes no sense."""


@dataclass(frozen=True, slots=True)
class Disk:
    """One claim, and how full it is."""

    claim: str
    """Name of the claim."""
    percent: int
    """What is used of it."""
    capacity: Quantity
    """Its size now."""
    storage_class: str = ""
    """Name of its StorageClass."""
    expandable: bool | None = None
    """Whether claims of that class can grow; None if it is not known: it is tried."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a disk, and why."""

    verdict: Verdict
    size: Quantity | None = None
    """What is asked for."""
    detail: str = ""
    """What is wrong, in words."""


def decide(
    disk: Disk, policy: PVCAutoScale, request: PVCAutoScaleRequest | None, now: datetime
) -> Decision:
    """`request`: what was last asked for.

    The size is cut to the ceiling before it is compared with what was asked for: at the ceiling a disk is
    asked for once. The 2 % that file systems need are not in it; the claims' control adds them, within
    the same ceiling.
    """
    if disk.percent < policy.used_space_percentage:
        return Decision(Verdict.HAS_ROOM)
    capacity = disk.capacity.value
    ceiling = None if policy.max_size is None else policy.max_size.value
    if ceiling is not None and capacity >= ceiling:
        return Decision(Verdict.AT_CEILING)
    try:
        wanted = increased(capacity, policy.increase_quantity)
    except ValueError as error:
        return Decision(Verdict.INVALID, detail=str(error))
    size = wanted if ceiling is None else min(wanted, ceiling)
    if request is not None:
        if request.requested_size.value >= size:
            return Decision(Verdict.REQUESTED)
        if now - request.requested_at < timedelta(seconds=policy.cooldown_seconds):
            return Decision(Verdict.COOLING)
    if disk.expandable is False:
        return Decision(Verdict.CANNOT_EXPAND, detail=_cannot_expand(disk))
    return Decision(Verdict.GROWS, Quantity(in_short(size)))


def increased(capacity: Decimal, increase: str) -> Decimal:
    """Return the size after an increase by a percentage (`20%`) or an amount (`100Gi`), in whole bytes.

    Raises ValueError for what is neither, and for what is not more than before.
    """
    percentage = _PERCENTAGE.fullmatch(increase)
    more = capacity * int(percentage[1]) / 100 if percentage else Quantity(increase).value
    more = more.to_integral_value(ROUND_HALF_UP)
    if more < 1:
        raise ValueError(f"increaseQuantity {increase} lets no disk grow; give more than 0")
    return capacity + more


def _cannot_expand(disk: Disk) -> str:
    return (
        f"the disk is full to {disk.percent}% and StorageClass {disk.storage_class} does not let claims grow: "
        "set allowVolumeExpansion there if its volumes can"
    )
