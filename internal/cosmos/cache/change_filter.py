"""Which answers are worth a reconcile. Pure."""

from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final

from internal.cosmos.cache.observation import Observation

SECONDS_OF_HEIGHTS: Final = 60.0
"""Heights alone are reported once in that many seconds at most."""


@dataclass(slots=True)
class _Reported:
    words: dict[str, Hashable] = field(default_factory=dict)
    """By UID: whether it is in sync, can be reached, and has no new block."""
    heights: dict[str, int | None] = field(default_factory=dict)
    at: float = 0.0


class News:
    """Holds what was last reported of each set."""

    def __init__(self) -> None:
        self._reported: dict[Hashable, _Reported] = {}

    def is_news(
        self,
        key: Hashable,
        observations: Iterable[Observation],
        now: float,
        boundaries: Collection[int] = (),
    ) -> bool:
        """Whether to report to the set's listeners; if so, it counts as reported.

        `now` in seconds, never going back. The first look at a set without an answer is no news.
        `boundaries`: heights that a listener waits for; that a node makes one of them next is reported at
        once.
        """
        seen = list(observations)
        words = {each.uid: _word(each, boundaries) for each in seen if each.at is not None}
        heights = {each.uid: each.height for each in seen if each.is_reachable}
        reported = self._reported.get(key)
        if reported is None:
            reported = self._reported[key] = _Reported(at=now)
        if words == reported.words and (
            heights == reported.heights or now - reported.at < SECONDS_OF_HEIGHTS
        ):
            return False
        self._reported[key] = _Reported(words, heights, now)
        return True

    def heights_are_due(self, key: Hashable, now: float) -> bool:
        """Whether the set's heights, if they changed, would be news by now."""
        reported = self._reported.get(key)
        return reported is None or now - reported.at >= SECONDS_OF_HEIGHTS

    def forget(self, key: Hashable) -> None:
        """Forget a set that is gone."""
        self._reported.pop(key, None)


def _word(observation: Observation, boundaries: Collection[int]) -> Hashable:
    passed = reached(observation.height, boundaries)
    return observation.is_in_sync, observation.is_reachable, observation.is_stalled, passed


def reached(height: int | None, boundaries: Iterable[int]) -> int:
    """How many of the boundaries a node of that last block has reached: it makes the next one."""
    following = 0 if height is None else height + 1
    return sum(boundary <= following for boundary in boundaries)
