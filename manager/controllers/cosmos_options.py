"""Options of the cosmos system. Imports little of it: the command line reads the defaults of every system."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import click

from ctrlruntime.clock import utc_now
from internal.cosmos.clock import Clock, SystemClock
from internal.cosmos.times import Times
from manager.flags.groups import POSITIVE, flag

_SECONDS: Final = click.FloatRange(min=0, min_open=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CosmosOptions:
    """Options of the cosmos system."""

    fullnode_concurrency: int = field(
        default=10,
        metadata=flag("--fullnode-concurrency", "Sets of nodes worked on at once.", type=POSITIVE),
    )
    poll_seconds: float = field(
        default=5.0,
        metadata=flag(
            "--node-poll-seconds", "Seconds between two questions to the same node.", type=_SECONDS
        ),
    )
    poll_timeout_seconds: float = field(
        default=5.0,
        metadata=flag("--node-poll-timeout", "Seconds that a node has to answer.", type=_SECONDS),
    )
    polls_at_once: int = field(
        default=100,
        metadata=flag(
            "--node-polls-at-once",
            "Questions to nodes under way at once, of all sets.",
            type=POSITIVE,
        ),
    )
    disk_seconds: float = field(
        default=60.0,
        metadata=flag(
            "--node-disk-seconds",
            "Seconds between two looks at how full the same disk is.",
            type=_SECONDS,
        ),
    )
    heal_seconds: float = field(
        default=60.0,
        metadata=flag(
            "--node-heal-seconds",
            "Seconds between two checks of a set of nodes that is to be fixed.",
            type=_SECONDS,
        ),
    )
    node_sidecar_image: str = field(
        default="",
        metadata=flag(
            "--node-sidecar-image",
            "Image of the containers beside a node, where its set names none: a set keeps the one it was "
            "first built with. Default: the manager's own.",
        ),
    )
    node_script_image: str = field(
        default="ctrlruntime-node-tools:v1",
        metadata=flag(
            "--node-script-image",
            "Image that scripts of a set (genesisScript and so on) run in, where the set names none.",
        ),
    )
    """`Dockerfile.node-tools` makes the default."""
    roll_builder_changes: bool = field(
        default=False,
        metadata=flag(
            "--roll-builder-changes",
            "Bring what was built by an older manager up to date, Pods within the budget. "
            "Otherwise each set of nodes decides for itself.",
        ),
    )
    times: Times = field(default_factory=Times)
    """When a set of nodes is looked at again while it is not as it should be."""
    clock: Clock = field(default_factory=SystemClock)
    """The time that schedules go by."""
    now: Callable[[], datetime] = utc_now
    """The time that answers of nodes are stamped with, and that their silence is measured by."""
