"""What one attack costs: how long the loop stood still, how much memory was taken, whether a neighbour was harmed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from tests.hostile.memory import peak_above_idle

Attack = Callable[[], Awaitable[None]]
"""Send one hostile input through a door. Raises AssertionError where it is not refused as it should be."""
LIMIT = 60.0
"""Seconds of an attack."""


@dataclass(frozen=True, slots=True)
class Door:
    """A way by which something from outside comes in, and what is sent through it."""

    name: str
    shapes: Mapping[str, Attack]
    neighbour: Attack
    """A healthy peer of the same door. Raises where it is not served."""
    limits: str = field(kw_only=True)
    """What is read at most, for the table of doors."""
    managed: bool = field(default=True, kw_only=True)
    """Whether it is one of a manager, which collects garbage by itself; a command does not."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one attack cost."""

    door: str
    shape: str
    stall_ms: float
    """Processor time of the longest turn of the loop, so that a busy machine changes nothing."""
    peak_mib: float
    error: str
    """Why the attack was not withstood; empty if it was."""
    neighbour: str
    """Why the neighbour was not served; empty if it was."""


class Turns:
    """The longest turn of the running loop, in processor time of its thread.

    Each turn is measured by itself: a task that sleeps for a millisecond wakes up two turns later, and would add them up.
    """

    def __init__(self) -> None:
        self.longest = 0.0
        self._loop = cast("Any", asyncio.get_running_loop())
        self._run_once = self._loop._run_once  # there is no other place that every turn passes
        self._loop._run_once = self._measured
        self._began = time.thread_time()

    def _measured(self) -> None:
        self._began = time.thread_time()
        self._run_once()
        self._look()

    def _look(self) -> None:
        self.longest = max(self.longest, time.thread_time() - self._began)

    def end(self) -> float:
        """Return seconds, this turn among them."""
        self._look()
        self._loop._run_once = self._run_once
        return self.longest


async def measured(door: Door, shape: str) -> Outcome:
    """Carry out one attack, with the neighbour served beside it and once more afterwards."""
    neighbour = asyncio.create_task(_harm(door.neighbour))
    with peak_above_idle() as peak:
        turns = Turns()
        error = await _harm(door.shapes[shape])
        longest = turns.end()
    harm = await neighbour or await _harm(door.neighbour)
    return Outcome(door.name, shape, longest * 1000, peak.mib, error, harm)


async def _harm(attack: Attack) -> str:
    try:
        async with asyncio.timeout(LIMIT):
            await attack()
    except Exception as error:  # noqa: BLE001 - what an attack raises is what is recorded
        return f"{type(error).__name__}: {error}"
    return ""
