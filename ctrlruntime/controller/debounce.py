"""A write waits a moment for what is likely to follow it at once."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Debounce:
    """Measures, by key, how long a state has been in between. In memory: a restart begins anew.

    An object whose parts are ready within a second costs one status write instead of two.
    """

    clock: Callable[[], float]
    period: float
    """Seconds that a state in between is held back."""
    _since: dict[Hashable, float] = field(default_factory=dict)

    def remaining(self, key: Hashable, *, pending: bool) -> float:
        """Return the seconds to wait before the state is written; 0 means now.

        `pending`: more is likely to follow. Once it is not, the next time begins anew.
        """
        if not pending:
            self._since.pop(key, None)
            return 0.0
        now = self.clock()
        return max(0.0, self._since.setdefault(key, now) + self.period - now)

    def forget(self, key: Hashable) -> None:
        """Drop what is kept for an object that is gone."""
        self._since.pop(key, None)
