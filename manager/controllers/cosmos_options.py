"""Options of the cosmos system. Imports little of it: the command line reads the defaults of every system."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from ctrlruntime.clock import utc_now
from internal.cosmos.clock import Clock, SystemClock
from internal.cosmos.times import Times


@dataclass(frozen=True, slots=True, kw_only=True)
class CosmosOptions:
    """Options of the cosmos system."""

    fullnode_concurrency: int = 10
    """Sets of nodes worked on at once."""
    poll_seconds: float = 5.0
    """Seconds between two questions to the same node."""
    poll_timeout_seconds: float = 5.0
    """Seconds that a node has to answer."""
    polls_at_once: int = 100
    """Questions under way at once, of all sets."""
    disk_seconds: float = 60.0
    """Seconds between two looks at the usage of the same disk."""
    heal_seconds: float = 60.0
    """Seconds between two checks of a set that self-healing is on for."""
    node_sidecar_image: str = ""
    """Image of the containers beside a node, where its set names none."""
    node_script_image: str = "ctrlruntime-node-tools:v1"
    """Image that scripts of a set run in, where it names none; `Dockerfile.node-tools` makes it."""
    roll_builder_changes: bool = False
    """Update objects that only a new manager would build in another way; otherwise each set decides."""
    times: Times = field(default_factory=Times)
    """When a set of nodes is looked at again while it is not as it should be."""
    clock: Clock = field(default_factory=SystemClock)
    """The time that schedules go by."""
    now: Callable[[], datetime] = utc_now
    """The time that answers of nodes are stamped with, and that their silence is measured by."""
