"""What the steps of a pass come upon, beside what they are for."""

from ctrlruntime.controller.failures import Failures
from internal.cosmos.fullnode.events import Note


class Findings(Failures):
    """The failures, what is held back, and what is worth an event."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[str] = []
        """Names of objects that only a new builder would make in another way."""
        self.notes: list[Note] = []
        """Events."""
