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

    async def maybe_yield(self) -> None:
        """Yields to the loop if the slice is used up."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._ends:
            return
        if not self._renewing:
            self._renewing = True
            loop.call_soon(self._renew)
        await asyncio.sleep(0)

    def _renew(self) -> None:
        self._renewing = False
        self._ends = asyncio.get_running_loop().time() + self._slice
