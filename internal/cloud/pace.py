"""How long the driver of tasks waits for what."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long the driver waits for what. Seconds."""

    at_once: float = 0.01
    """Before the next pass, when there is more to do."""
    settle: float = 2.0
    """That a run which exists may take to begin before its existence is recorded by itself: most
    begin sooner, and both steps are one write."""
    poll_least: float = 1.0
    """Between two looks at a young run whose provider tells nothing."""
    poll_most: float = 30.0
    """The same for an old one: looks are a tenth of its age apart."""
    waiting: float = 30.0
    """Least time between two writes about waiting."""
    progress: float = 30.0
    """Least time between two messages of a run under way that are recorded."""
    plan_check: float = 3600.0
    """Between two looks at a plan that waits for an approval: it may have been discarded, or applied, elsewhere."""
    deleting: float = 0.5
    """Between two looks at runs that are being deleted."""
    interrupt: float = 30.0
    """That a run under way may go on once newer inputs, a deletion or a retry came, before it is
    cancelled."""
    grace: float = 120.0
    """After a cancellation, until a run that does not heed it is deleted."""
    hub: float = 30.0
    """Between two looks at a hub that does not take what is on it; that it answers again is noticed sooner."""
