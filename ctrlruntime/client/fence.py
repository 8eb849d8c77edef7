"""A fence: a check of every write, in the very turn of the loop in which its bytes leave.

A request may wait: for a free slot, a connection, a retry, its turn on a busy loop, or because the
process was stopped. Whoever must not write any more has to be asked after all of that.
"""

from __future__ import annotations

from collections.abc import Callable

Fence = Callable[[], None]
"""Raises to keep a write from being sent; the caller gets the error. Called often, so quick."""


class SlotNotHeld(RuntimeError):
    """A write of a pass whose slot belongs to another process by now, or may. It was not sent."""

    def __init__(self, slot: int) -> None:
        super().__init__(f"slot {slot} is not held any more: the write was not sent")


READS = frozenset({"GET", "HEAD"})
