"""Clocks of the process that jump: as if the machine had not run it for a while."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ctrlruntime.clock import Sources, replaced


@contextmanager
def standing_still() -> Iterator[Callable[[float], None]]:
    """Yield what lets so many seconds pass at once, for everything in the process: its loops, Leases and delays."""
    real, passed = Sources(), 0.0

    def later(clock: Callable[[], float]) -> Callable[[], float]:
        return lambda: clock() + passed

    def let_pass(seconds: float) -> None:
        nonlocal passed
        passed += seconds

    monotonic, boottime = later(real.monotonic), later(real.boottime)
    with (
        pytest.MonkeyPatch.context() as patch,
        replaced(Sources(monotonic=monotonic, boottime=boottime, wall=later(real.wall))),
    ):
        patch.setattr("time.monotonic", monotonic)  # of the event loop
        yield let_pass
