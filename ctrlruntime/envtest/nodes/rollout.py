"""How a Deployment gets from old ReplicaSets to the new one. No I/O."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A ReplicaSet's size: asked for, existing and available Pods."""

    name: str
    wanted: int
    exists: int
    available: int


def limits(strategy: Mapping[str, Any], replicas: int) -> tuple[int, int]:
    """MaxSurge (rounded up) and maxUnavailable (rounded down), never both zero."""
    rolling = strategy.get("rollingUpdate") or {}
    surge = _share(rolling.get("maxSurge", "25%"), replicas, math.ceil)
    unavailable = _share(rolling.get("maxUnavailable", "25%"), replicas, math.floor)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return surge, min(unavailable, replicas)


def _share(value: int | str, total: int, rounded: Callable[[float], int]) -> int:
    if isinstance(value, int):
        return value
    return int(rounded(int(value.rstrip("%")) * total / 100))


def plan(
    replicas: int, strategy: Mapping[str, Any], new: Scale, old: Sequence[Scale]
) -> dict[str, int]:
    """Return the sizes to set now, by name of ReplicaSet; empty when there is nothing to do.

    As the deployment controller: `Recreate` waits until no old Pod is left; `RollingUpdate`
    keeps within maxSurge and maxUnavailable, old Pods that are not available go first.
    """
    if strategy.get("type") == "Recreate":
        return _recreate(replicas, new, old)
    surge, unavailable = limits(strategy, replicas)
    old_wanted = sum(s.wanted for s in old)
    size = new.wanted
    if new.wanted > replicas:
        size = replicas
    elif new.wanted < replicas:
        room = replicas + surge - old_wanted - new.wanted
        size = min(replicas, new.wanted + max(room, 0))
    sizes = {} if size == new.wanted else {new.name: size}
    return sizes | _shrink(replicas - unavailable, new, old)


def _shrink(minimum: int, new: Scale, old: Sequence[Scale]) -> dict[str, int]:
    """Smaller sizes of old ReplicaSets, so that `minimum` Pods stay available."""
    sizes = {s.name: s.wanted for s in old}
    spare = sum(sizes.values()) + new.wanted - minimum - (new.wanted - new.available)
    for scale in old:
        dead = min(max(scale.wanted - scale.available, 0), max(spare, 0))
        sizes[scale.name] -= dead
        spare -= dead
    spare = new.available + sum(s.available for s in old) - minimum
    for scale in old:
        cut = min(sizes[scale.name], max(spare, 0))
        sizes[scale.name] -= cut
        spare -= cut
    return {s.name: sizes[s.name] for s in old if sizes[s.name] != s.wanted}


def _recreate(replicas: int, new: Scale, old: Sequence[Scale]) -> dict[str, int]:
    sizes = {scale.name: 0 for scale in old if scale.wanted}
    if sizes or any(scale.exists for scale in old):
        return sizes
    return {} if new.wanted == replicas else {new.name: replicas}
