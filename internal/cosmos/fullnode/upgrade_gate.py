"""When a node's height decides on another version.

A chain stops for an upgrade at the height of the new version, and writes down which upgrade it is just
after its last block. A Pod that is taken down in between leaves a disk that the new version cannot go on
with. So the poll's word that a node has reached such a height counts only after a while; the container
beside the node, which reads what the chain wrote down, is believed at once.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field


def crosses(before: int, after: int, boundaries: Iterable[int]) -> bool:
    """Whether another version runs at the second height than at the first."""
    return any(before < boundary <= after for boundary in boundaries)


@dataclass(frozen=True, slots=True)
class Admitted:
    """The heights to go by."""

    heights: dict[str, int]
    """By Pod, of the nodes that are known."""
    crossed: bool
    """Whether one of them decides on another version than what was recorded."""
    wait: float
    """Seconds until more may be; 0 if nothing is waited for."""


@dataclass(slots=True)
class Crossings:
    """Remembers since when a node stands at a height of another version. At worst a wait begins anew."""

    monotonic: Callable[[], float]
    seconds: float
    _seen: dict[Hashable, dict[str, tuple[int, float]]] = field(default_factory=dict)

    def admit(
        self,
        key: Hashable,
        recorded: Mapping[str, int],
        polled: Mapping[str, int],
        boundaries: Collection[int],
    ) -> Admitted:
        """Decide on what the nodes of a set reported. A node that fell silent keeps what it reported last.

        One that reports a lower height than before has taken the higher one back.
        """
        now, seen = self.monotonic(), self._seen.setdefault(key, {})
        heights, waits, crossed = dict[str, int](), list[float](), False
        for pod in sorted({*polled, *seen}):
            height = polled[pod] if pod in polled else seen[pod][0]
            if not crosses(recorded.get(pod, 0), height, boundaries):
                seen.pop(pod, None)
                if pod in polled:
                    heights[pod] = polled[pod]
                continue
            since = seen.get(pod, (0, now))[1]
            seen[pod] = (height, since)
            left = since + self.seconds - now
            if left > 0:
                waits.append(left)
            else:
                heights[pod], crossed = height, True
        if not seen:
            self.forget(key)
        return Admitted(heights, crossed, min(waits, default=0.0))

    def forget(self, key: Hashable, pods: Collection[str] | None = None) -> None:
        """Forget what is remembered of a set, or of some of its nodes."""
        if pods is None:
            self._seen.pop(key, None)
            return
        for pod in pods:
            self._seen.get(key, {}).pop(pod, None)
