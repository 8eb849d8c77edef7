"""Keeps workers from holding the loop when their reconciles never really wait."""

from __future__ import annotations

import asyncio


class LoopYielder:
    """Lets other tasks run after ``slice_seconds`` of uninterrupted work.

    Shared by all workers of a process: together they take one slice per turn of the loop, so the
    loop stays responsive however many of them are busy.
    """

    def __init__(self, slice_seconds: float = 0.005) -> None:
        self._slice = slice_seconds
        self._ends = 0.0
        self._renewing = False

    @property
    def used_up(self) -> bool:
        """Whether the slice is used up, so that it is time for `maybe_yield`."""
        return asyncio.get_running_loop().time() >= self._ends

    async def maybe_yield(self) -> None:
        """Yield to the loop if the slice is used up."""
        if not self.used_up:
            return
        loop = asyncio.get_running_loop()
        if not self._renewing:
            self._renewing = True
            loop.call_soon(self._renew)
        await asyncio.sleep(0)

    def _renew(self) -> None:
        self._renewing = False
        self._ends = asyncio.get_running_loop().time() + self._slice
