"""Coroutines that run side by side and end together."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any


def is_being_cancelled() -> bool:
    """Return whether the current task was asked to end, and not only met a cancellation of something else."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


def as_failure(error: BaseException) -> Exception:
    """Return the error that ends a task as an Exception, so that it is handled as one.

    A BaseException that is none, as a panic of Rust is, and a cancellation without a request become the cause of a
    RuntimeError. What ends the process, the task or a coroutine on purpose is raised.
    """
    if isinstance(error, Exception):
        return error
    if isinstance(error, (KeyboardInterrupt, SystemExit, GeneratorExit)):
        raise error
    if isinstance(error, asyncio.CancelledError) and is_being_cancelled():
        raise error
    cancelled = isinstance(error, (asyncio.CancelledError, BaseExceptionGroup))
    what = (
        "cancelled from within, without a request to stop" if cancelled else f"ended by {error!r}"
    )
    failure = RuntimeError(what)
    failure.__cause__ = error
    return failure


async def first_to_end(*endless: Awaitable[object]) -> None:
    """Run side by side; when one ends, the others end too. Raises its error, if it ended by one."""
    await _run(endless, asyncio.FIRST_COMPLETED)


async def all_to_end(jobs: Iterable[Awaitable[Any]]) -> None:
    """Run all to their end; the first error ends the others, which are awaited, and is raised as it is."""
    await _run(jobs, asyncio.FIRST_EXCEPTION)


async def _run(jobs: Iterable[Awaitable[object]], return_when: str) -> None:
    """Run until asyncio.wait returns, then cancel and await what is left. Raises the error of one that ended.

    A TaskGroup would leave its task marked as cancelled when the error is caught (CPython before
    3.13), and later time limits inside it would then not work.
    """
    tasks = [asyncio.ensure_future(each) for each in jobs]
    if not tasks:
        return
    try:
        done, _ = await asyncio.wait(tasks, return_when=return_when)
        for task in tasks:  # of several errors always the same one is raised
            if task in done:
                task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
