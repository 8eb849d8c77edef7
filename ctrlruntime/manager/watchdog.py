"""Measures how long the loop stands still, and keeps the garbage collector from doing it."""

from __future__ import annotations

import asyncio
import gc
import resource
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from structlog.typing import FilteringBoundLogger

from ctrlruntime.clock import monotonic, perf

GROWN_ROUNDS: Final = 10
"""Rounds of collections for which a process stays grown until what is frozen is collected: one large body is no growth."""


class LoopWatchdog:
    """Sleeps ``interval`` seconds again and again and reports how late it woke up."""

    needs_leader_election = False

    def __init__(
        self,
        report: Callable[[float], None],
        logger: FilteringBoundLogger,
        *,
        interval: float = 0.1,
        warn_above: float = 1.0,
    ) -> None:
        self._report = report
        self._logger = logger
        self._interval = interval
        self._warn_above = warn_above

    async def start(self) -> None:
        """Run until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + self._interval
            await asyncio.sleep(self._interval)
            stall = loop.time() - due
            self._report(max(0.0, stall))
            if stall > self._warn_above:
                self._logger.warning("The event loop stood still", seconds=round(stall, 3))


@dataclass(frozen=True, slots=True, kw_only=True)
class GCOptions:
    """What the manager does to Python's garbage collector. The process is assumed to be its own."""

    manage: bool = False
    """Off during the initial lists; then collect, freeze what is there, and raise thresholds."""
    thresholds: tuple[int, int, int] = (10_000, 3, 10_000)
    young_period: float = 0.1
    """Seconds between collections of the young objects. The collector counts an allocation less for each object that
    goes, so where old ones are replaced it would let a million young ones gather, and stop the loop for 0.2 s."""
    full_period: float = 60.0
    """Seconds between collections of everything that is not frozen."""
    most_unfrozen: int = 20_000
    """Old objects that are not frozen until they are collected and frozen, which bounds how long a collection takes:
    some 10 ms."""
    most_growth: int = 128 * 1024 * 1024
    """Bytes by which the process grows without so many objects until what is frozen is collected as well: cycles that
    were in use when they were frozen. This alone stops the loop as long as the first collection did."""


def resident() -> int:
    """Return the bytes of memory of this process; 0 where the system has no ``/proc``."""
    try:
        pages = Path("/proc/self/statm").read_bytes().split()[1]
    except OSError:
        return 0
    return int(pages) * resource.getpagesize()


class GCTuner:
    """Applies :class:`GCOptions`: a full collection of a large cache would stall the loop.

    Times every collection for the ``ctrlruntime_gc_pause_seconds`` metric, managed or not.
    """

    def __init__(
        self,
        options: GCOptions,
        report: Callable[[str, float], None],
        *,
        clock: Callable[[], float] = monotonic,
        memory: Callable[[], int] = resident,
    ) -> None:
        """``clock`` returns seconds, ``memory`` the bytes of this process."""
        self._options = options
        self._clock = clock
        self._memory = memory
        self._full = 0.0
        self._size = 0
        """Bytes of this process when objects were last frozen."""
        self._report = report
        self._began = 0.0
        self._previous: tuple[int, int, int] | None = None
        self._collecting: asyncio.Task[None] | None = None

    def before_caches(self) -> None:
        gc.callbacks.append(self._time)
        if self._options.manage:
            self._previous = gc.get_threshold()
            gc.disable()

    def after_caches(self) -> None:
        """Freeze what is alive now: it mostly stays, and later collections need not look at it."""
        if self._options.manage:
            self._collect_and_freeze()
            self._full = self._clock()
            gc.set_threshold(*self._options.thresholds)
            gc.enable()
            self._collecting = asyncio.create_task(self._collect(), name="collect young objects")

    def end(self) -> None:
        """Put the collector back as it was."""
        if self._collecting is not None:
            self._collecting.cancel()
            self._collecting = None
        if self._time in gc.callbacks:
            gc.callbacks.remove(self._time)
        if self._previous is not None:
            gc.unfreeze()
            gc.set_threshold(*self._previous)
            gc.enable()
            self._previous = None

    async def _collect(self) -> None:
        """Collect the youngest objects often, those that stayed in every second round, all now and then."""
        rounds = 0
        while True:
            for generation in (0, 1):
                await asyncio.sleep(self._options.young_period)
                gc.collect(generation)
            grown = self._memory() - self._size > self._options.most_growth
            rounds = rounds + 1 if grown else 0
            if rounds > GROWN_ROUNDS:
                rounds = 0
                gc.unfreeze()
                self._collect_and_freeze()
            elif len(gc.get_objects(generation=2)) > self._options.most_unfrozen:
                self._collect_and_freeze()
            elif self._clock() - self._full >= self._options.full_period:
                gc.collect()
            else:
                continue
            self._full = self._clock()

    def _collect_and_freeze(self) -> None:
        gc.collect()
        gc.freeze()
        self._size = self._memory()

    def _time(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._began = perf()
        else:
            self._report(str(info.get("generation", "")), perf() - self._began)
