"""How long a set of nodes waits until it is reconciled again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """Seconds until a set is reconciled again. One that is complete is not."""

    progress: float = 3.0
    """While a step is in progress, or after a failure that is likely to pass."""
    external: float = 30.0
    """While it waits for others: a load balancer, a node that catches up, a snapshot."""
    failure: float = 60.0
    """After a failure that a person has to fix, perhaps where no event shows it."""
    upgrade: float = 10.0
    """For which a node stands at the height of another version before it is taken down; see Crossings."""
