"""Coroutines that run for ever, side by side: they end together, by the first error or by cancellation."""

import asyncio
from collections.abc import Coroutine
from typing import Any


def is_being_cancelled() -> bool:
    """Return whether the current task was asked to end, and not only met a cancellation of something else."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


async def first_to_end(*endless: Coroutine[Any, Any, None]) -> None:
    """Run them side by side; when one ends, by an error, the others end too and it is raised.

    A TaskGroup would leave its task marked as cancelled when the error is caught (CPython before
    3.13), and later time limits inside it would then not work.
    """
    tasks = [asyncio.ensure_future(each) for each in endless]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
