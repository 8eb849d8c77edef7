"""Work on all rows of a registry in slices, between which the event loop, or another thread, has its turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable
from itertools import chain
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
SLICE: Final = 2_000
"""Items that are worked on before others have their turn: a few milliseconds."""
MANY: Final = 1_000
"""Items that are worked on in a thread: fewer are done before one has started."""
Slices = Generator[None, None, R]
"""Work that yields between two slices, and returns its result."""


def sort_slices(texts: Iterable[str]) -> Slices[list[str]]:
    """Return the texts in order.

    Runs of one slice are sorted, then merged in pairs. The last merge is the longest slice: 4 ms for 100,000 texts.
    """
    there = list(texts)
    if len(there) <= SLICE:
        return sorted(there)
    runs = []
    for start in range(0, len(there), SLICE):
        runs.append(sorted(there[start : start + SLICE]))
        yield
    while len(runs) > 1:
        merged = []
        for place in range(0, len(runs), 2):
            merged.append(sorted(chain.from_iterable(runs[place : place + 2])))
            yield
        runs = merged
    return runs[0]


def at_once(work: Slices[R]) -> R:
    """Return the result of all slices."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: R = end.value
            return result


async def in_turns(work: Slices[R]) -> R:
    """Return the result of all slices, with a turn of the loop between two."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: R = end.value
            return result
        await asyncio.sleep(0)


async def let_go(items: list[object]) -> None:
    """Empty a list that holds the last references: to free 100,000 rows at once takes a tenth of a second."""
    while items:
        del items[-SLICE:]
        if items:
            await asyncio.sleep(0)


async def beside_loop(count: int, work: Callable[P, R], *args: P.args, **options: P.kwargs) -> R:
    """Return what a pure function makes of so many items, in a thread where they are many."""
    if count < MANY:
        return work(*args, **options)
    return await asyncio.to_thread(work, *args, **options)
