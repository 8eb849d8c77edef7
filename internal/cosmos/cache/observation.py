"""What one node last said."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Protocol

from ctrlruntime.queue import Request
from internal.cosmos.comet.usage import DiskUsage

STALLED: Final = timedelta(minutes=10)
"""Without a block for so long a chain stands still, or its node does not follow it."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One Pod of a set, and what its node said when it was last asked."""

    pod: str
    """Name of the Pod."""
    uid: str
    """UID of the Pod."""
    ordinal: int
    """Number of the node."""
    at: datetime | None = None
    """When it was asked; None before the first time."""
    height: int | None = None
    """Its last block, if it answered."""
    catching_up: bool | None = None
    """Whether it said that it is behind."""
    error: str = ""
    """Why nothing is known."""
    in_sync_since: datetime | None = None
    """When the first of its last answers in a row came that it has caught up."""
    earlier_at: datetime | None = None
    """When it was asked the time before."""
    earlier_height: int | None = None
    """Its last block then, if it answered."""
    node_id: str = ""
    """Id of the key of the node that answered; empty if it reported none."""
    answered_at: datetime | None = None
    """When it answered last, in this Pod, as far as this manager asked it."""
    silent_since: datetime | None = None
    """When the first of its failures in a row was; None: it answered, or was not asked."""
    block_at: datetime | None = None
    """When its last block was made, if it reported that."""

    @property
    def is_reachable(self) -> bool:
        """Whether it answered."""
        return not self.error and self.height is not None

    @property
    def is_in_sync(self) -> bool:
        """Whether it answered, and has caught up."""
        return self.is_reachable and self.catching_up is False

    @property
    def is_stalled(self) -> bool:
        """Whether it has caught up, and its last block was old when it was asked."""
        return self.is_in_sync and is_old_block(self.block_at, self.at)


def is_old_block(block_at: datetime | None, at: datetime | None) -> bool:
    """Whether the last block of a node was made more than ten minutes before it was asked."""
    return block_at is not None and at is not None and at - block_at > STALLED


@dataclass(frozen=True, slots=True)
class DiskObservation:
    """How full the disk of one node is, as last reported."""

    pod: str
    """Name of the node's Pod."""
    ordinal: int
    """Number of the node."""
    at: datetime | None = None
    """When it was asked about; None before the first time."""
    usage: DiskUsage | None = None
    """Size and what is free, if reported."""
    error: str = ""
    """Why it is not known."""


class Observations(Protocol):
    """What the cache answers, at once and from memory. No method makes a request."""

    def collect(self, namespace: str, name: str) -> list[Observation]:
        """One for each main Pod that exists, by ordinal; a Pod not asked yet has an error saying so."""

    def synced(self, namespace: str, name: str) -> list[Observation]:
        """Those in sync whose Pod has been ready for the minimum time (5 s), by ordinal."""

    def disks(self, namespace: str, name: str) -> list[DiskObservation]:
        """One for each node, by ordinal."""

    def invalidate(self, namespace: str, name: str, pods: Iterable[str]) -> None:
        """Forget what these Pods said, and what they may be saying to a question already under way."""

    def subscribe(self, changed: Callable[[Request], None]) -> None:
        """Subscribe to sets whose nodes came into sync, fell out of it, or became (un)reachable at once.

        Heights alone are reported at most once a minute for each set.
        """
