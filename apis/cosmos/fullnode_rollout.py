"""How changes of a CosmosFullNode are rolled out, and how many nodes others may take down."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from apis.references import NumberOrPercentage
from ctrlruntime.api import ApiModel, Int32

__all__ = ["BuilderChanges", "DisruptionBudget", "PeerRollout", "PeerSettings", "Strategy"]


class PeerRollout(StrEnum):
    """When nodes read that their peers changed."""

    ROLLING = "Rolling"
    """At once: their Pods are replaced within the budget."""
    ON_RESTART = "OnRestart"
    """When their Pods are replaced for another reason."""


class BuilderChanges(StrEnum):
    """What becomes of existing objects if a new manager would build them in another way."""

    HOLD = "Hold"
    """They stay as they are until the resource itself changes."""
    ROLL = "Roll"
    """They are brought up to date, Pods within the budget."""


class Strategy(ApiModel):
    """How changes are rolled out."""

    max_unavailable: NumberOrPercentage | None = None
    """Nodes that may be down at once, as number or percentage of the replicas (rounded down, at least 1).
    Default: 25%."""
    min_ready_seconds: Annotated[Int32, Field(ge=0, le=86400)] = 10
    """Seconds that a Pod has to work without a break before the next one is taken down."""
    builder_changes: BuilderChanges = BuilderChanges.HOLD
    """What becomes of existing objects if only the manager changed."""
    halt_on_failures: NumberOrPercentage | None = None
    """Halt once so many Pods that are as the spec requests have failed: a number, or a percentage of the replicas
    (rounded down, at least 1). Default: never. The others stay as they are until fewer have failed, the limit is
    raised, or the spec requests other Pods."""
    progress_deadline_seconds: Annotated[Int32, Field(ge=1, le=86400)] | None = None
    """With haltOnFailures: seconds that a Pod may take to answer after it was created; then it has failed. Default: 600.
    While a node catches up, or an init container runs, the deadline does not count."""


class DisruptionBudget(ApiModel):
    """The PodDisruptionBudget of the nodes."""

    enabled: bool = True
    """Whether there is one. A set of a single node has none unless maxUnavailable is given here."""
    max_unavailable: Annotated[Int32, Field(ge=0)] | None = None
    """Nodes that evictions may leave down at once. Default: as strategy.maxUnavailable; with 0 no node is evicted."""


class PeerSettings(ApiModel):
    """What becomes of changed peers."""

    rollout: PeerRollout = PeerRollout.ROLLING
    """When nodes read them."""
