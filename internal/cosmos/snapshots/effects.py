"""What the state machine wants done. Each may be done again: what is done already is left alone."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Hold:
    """Put our finalizer on: from now on the object cannot go while a node of its is down."""


@dataclass(frozen=True, slots=True)
class Release:
    """Take our finalizer off."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Have one node taken down, unless another is."""

    pod: str
    """Name of its Pod."""


@dataclass(frozen=True, slots=True)
class Restore:
    """Let nodes come back."""

    node_sets: tuple[str, ...]
    """The CosmosFullNodes that have one down for us."""


@dataclass(frozen=True, slots=True)
class Create:
    """Make a VolumeSnapshot."""

    name: str
    """Its name."""
    claim: str
    """The claim that it is of."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the node's Pod."""
    height: int = 0
    """Next height of the node; 0 if it is unknown."""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete own VolumeSnapshots."""

    names: tuple[str, ...]
    """Their names."""


Effect = Hold | Release | Pause | Restore | Create | Delete
