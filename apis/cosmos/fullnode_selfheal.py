"""What of a CosmosFullNode is fixed automatically."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ctrlruntime.api import ApiModel, Int32, Quantity

from .common import Count

__all__ = ["HeightDriftMitigation", "PVCAutoScale", "SelfHeal", "Unresponsive"]


class PVCAutoScale(ApiModel):
    """Grows disks as they fill."""

    used_space_percentage: Annotated[Int32, Field(ge=1, le=100)]
    """From this usage on."""
    increase_quantity: Annotated[
        str, Field(max_length=32, pattern=r"^([0-9]+%|[0-9]+(\.[0-9]+)?([KMGTPE]i|[kMGTPE])?)$")
    ]
    """By how much: a percentage of the capacity (20%) or an amount (100Gi)."""
    max_size: Quantity | None = None
    """No disk grows beyond it."""
    cooldown_seconds: Count = 21600
    """Seconds between two requests for the same disk; clouds limit how often a disk may change."""


class HeightDriftMitigation(ApiModel):
    """Restarts nodes that fall behind the others."""

    threshold: Annotated[Int32, Field(ge=1)]
    """Blocks behind the second highest of the other nodes: one node alone may report a wrong height. It takes
    three nodes in sync."""
    cooldown_seconds: Count = 300
    """Seconds that a Pod is not restarted after it was created."""


class Unresponsive(ApiModel):
    """Restarts nodes that answered and do not any more, while the container beside them does."""

    restart: bool = True
    """Whether such a node is restarted: one at a time, within strategy.maxUnavailable."""
    after_seconds: Annotated[Int32, Field(ge=10)] = 900
    """Seconds without an answer."""


class SelfHeal(ApiModel):
    """What is fixed automatically."""

    pvc_auto_scale: PVCAutoScale | None = Field(default=None, alias="pvcAutoScale")
    """Grow disks as they fill."""
    height_drift_mitigation: HeightDriftMitigation | None = None
    """Restart nodes that fall behind."""
    unresponsive: Unresponsive = Field(default_factory=Unresponsive)
    """Restart nodes that hang; also without selfHeal, unless it is switched off here."""
