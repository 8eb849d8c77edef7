"""What goes wrong between the task and the server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Faults:
    """Requests are numbered from 1 as they arrive, uploads and logs included."""

    lose_reply_of: int = 0
    """This request is carried out, and its answer is lost."""
    gone_from: int = 0
    """This request and all later ones are not answered: the task was killed at this point."""
    carried_out: bool = False
    """Whether the first of those is carried out nevertheless."""
    broken_at: int = 0
    """This request is answered with 502, and was carried out."""
    count: int = 0
    log: list[str] = field(default_factory=list)
    on_arrival: dict[int, Callable[[], object]] = field(default_factory=dict)
    """Called when a request arrives, before it is carried out."""

    def arrive(self, what: str) -> int:
        """The number of a request."""
        self.count += 1
        self.log.append(what)
        self.on_arrival.get(self.count, lambda: None)()
        return self.count

    def heal(self) -> None:
        """From now on nothing goes wrong; numbers start again."""
        self.lose_reply_of = self.gone_from = self.broken_at = self.count = 0
        self.log = []

    @property
    def dead(self) -> bool:
        """Whether the request that is being handled is beyond the end."""
        return 0 < self.gone_from <= self.count

    @property
    def processed(self) -> bool:
        """Whether the request that is being handled reaches the server."""
        return not self.dead or (self.carried_out and self.count == self.gone_from)
