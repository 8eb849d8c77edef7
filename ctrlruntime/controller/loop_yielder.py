"""Keeps workers from holding the loop when their reconciles never really wait."""

from __future__ import annotations

import asyncio

from ctrlruntime.clock import monotonic


class LoopYielder:
    """Lets other tasks run after ``slice_seconds`` of uninterrupted work.

    Shared by all workers of a process: together they take one slice per turn of the loop, so the
    loop stays responsive however many of them are busy. Who waits for an answer has no need to yield.
    """

    def __init__(self, slice_seconds: float = 0.005) -> None:
        self._slice = slice_seconds
        self._ends = 0.0
        self._measuring = False
        """Whether the slice of this turn of the loop has begun."""

    def begin(self) -> None:
        """Begin the slice of this turn, if it has not begun: before work that may take long."""
        if not self._measuring:
            self._measuring = True
            self._ends = monotonic() + self._slice
            asyncio.get_running_loop().call_soon(self._end_turn)

    @property
    def used_up(self) -> bool:
        """Whether the slice of this turn is used up, so that it is time for `maybe_yield`."""
        return self._measuring and monotonic() >= self._ends

    async def maybe_yield(self) -> None:
        """Yield to the loop if the slice is used up, or has not begun; what follows is measured from here."""
        if self._measuring and monotonic() < self._ends:
            return
        await asyncio.sleep(0)
        await self.wait_turn()

    async def wait_turn(self) -> None:
        """Begin work in a turn of the loop whose slice is not used up, this one if possible.

        However many tasks wake up in one turn, those that find the slice used up wait for another.
        """
        while self.used_up:  # noqa: ASYNC110 - the next turn is what is waited for
            await asyncio.sleep(0)
        self.begin()

    def _end_turn(self) -> None:
        self._measuring = False
