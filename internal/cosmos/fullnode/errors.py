"""What the steps of a pass come upon, beside what they are for."""

from collections.abc import Callable

from ctrlruntime.controller.aggregate_error import AggregateError, TransientError
from ctrlruntime.lifecycle.remote import ClusterTrouble
from internal.cosmos.fullnode.events import Note
from internal.cosmos.invalid import InvalidSpec, is_refused

Explain = Callable[[Exception], ClusterTrouble | None]
"""Returns what is wrong with the cluster of the objects, from the error of a write; None: the object is."""


class Findings(AggregateError):
    """The failures, what is held back, and what is worth an event."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[str] = []
        """Names of objects that only a new builder would make in another way."""
        self.notes: list[Note] = []
        """Events."""
        self.settling: list[float] = []
        """Seconds until a Pod has worked for minReadySeconds; 0 for none."""
        self.waits: list[float] = []
        """Seconds until something that waits is done."""
        self.explain: Explain = lambda _error: None
        """What errors mean, where objects are in another cluster than their set."""
        self.troubles: list[ClusterTrouble] = []
        """What is wrong with that cluster."""

    def append(self, error: Exception, step: str = "") -> None:
        """Add a failure. What the server refuses for good is a failure of the spec."""
        trouble = self.explain(error)
        if trouble is not None:
            self.troubles.append(trouble)
            error = TransientError(trouble.message)
        elif is_refused(error):
            error = InvalidSpec(f"the server refuses what the spec requests: {error}")
        super().append(error, step)

    @property
    def is_invalid(self) -> bool:
        """Whether a field of the spec is among the failures."""
        return any(isinstance(error, InvalidSpec) for error in self)
