"""A status of mere progress waits a moment: what is over by then is never written."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from internal.tenancy.outcome import Outcome, State

_UNDER_WAY = frozenset({State.READY, State.WAITING, State.BLOCKED})


@dataclass(slots=True)
class Patience:
    """Holds back the first status of a change for `delay` seconds while all goes well.

    A tenant whose Deployment is ready within a second costs one status write instead of two. Any
    trouble, and the end of the change, is told at once.
    """

    clock: Callable[[], float]
    delay: float = 1.0
    _since: dict[Hashable, float] = field(default_factory=dict)

    def left(self, tenant: Hashable, outcomes: Sequence[Outcome]) -> float:
        """Seconds to wait before the status is written; 0 means now."""
        states = {outcome.state for outcome in outcomes}
        if not states <= _UNDER_WAY or states <= {State.READY}:
            self._since.pop(tenant, None)
            return 0.0
        now = self.clock()
        return max(0.0, self._since.setdefault(tenant, now) + self.delay - now)

    def forget(self, tenant: Hashable) -> None:
        """The tenant is gone."""
        self._since.pop(tenant, None)
