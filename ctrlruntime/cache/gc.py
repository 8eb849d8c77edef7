"""Keeping the garbage collector off the loop's back while large caches are held.

A full collection over 10,000 objects takes a sixth of a second. So it is off while the first lists
are read; then everything alive is collected once and frozen, so that later collections do not look
at it again, and the thresholds are raised. What the store holds makes no cycles.
"""

import gc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorOptions:
    """``enabled`` False leaves Python's collector alone."""

    enabled: bool = True
    thresholds: tuple[int, int, int] = (100_000, 50, 1000)


class Collector:
    """The discipline, once for a process: `listing`, then `listed` when all caches have synced, `restore` at the end.

    ``on_pause(seconds, generation)`` is told of every collection.
    """

    def __init__(
        self,
        options: CollectorOptions | None = None,
        *,
        on_pause: Callable[[float, int], None] = lambda _seconds, _generation: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._options = options or CollectorOptions()
        self._on_pause = on_pause
        self._clock = clock
        self._started = 0.0
        self._thresholds: tuple[int, int, int] | None = None
        self._was_enabled = True

    def listing(self) -> None:
        """Before the first lists are read: collection is off."""
        if not self._options.enabled or self._thresholds is not None:
            return
        self._thresholds = gc.get_threshold()
        self._was_enabled = gc.isenabled()
        gc.callbacks.append(self._collected)
        gc.disable()

    def listed(self) -> None:
        """After the first lists: collects once, freezes what is left, and goes on with high thresholds."""
        if self._thresholds is None:
            return
        gc.collect()
        gc.freeze()
        gc.set_threshold(*self._options.thresholds)
        gc.enable()

    def restore(self) -> None:
        """As it was before `listing`. Harmless if that was never called."""
        if self._thresholds is None:
            return
        gc.unfreeze()
        gc.set_threshold(*self._thresholds)
        self._thresholds = None
        gc.callbacks.remove(self._collected)
        if self._was_enabled:
            gc.enable()

    def _collected(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._started = self._clock()
        else:
            self._on_pause(self._clock() - self._started, info["generation"])
