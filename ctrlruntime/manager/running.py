"""A manager that runs for the length of a block."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Protocol

from ctrlruntime.manager.signals import mark_graceful


class StoppedWhileStarting(RuntimeError):
    """The manager was stopped, without an error, before it was ready."""

    def __init__(self) -> None:
        super().__init__(
            "the manager was stopped before it was ready: enter the block before stop() or a signal ends it"
        )


class Startable(Protocol):
    """Something that runs until it is stopped."""

    async def start(self) -> None:
        """Run until stopped or cancelled, or until it fails."""
        ...

    def stop(self) -> None:
        """Request the end of :meth:`start`."""
        ...


@contextlib.asynccontextmanager
async def run_in_background(subject: Startable, ready: asyncio.Event) -> AsyncIterator[None]:
    """Start ``subject``, enter the block once ``ready`` is set, stop ``subject`` at the end of it.

    Raises what ``start`` raises; when it fails within the block, the block is cancelled. Raises an
    ExceptionGroup when the block and ``start`` fail with different errors, and StoppedWhileStarting
    when ``start`` returns before ``ready`` is set.
    """
    task = asyncio.create_task(subject.start(), name="manager")
    try:
        await _until_ready(task, ready)
        with _interrupted_by(task):
            yield
    except BaseException as error:
        await _end(subject, task)
        _raise_both(error, _failure(task))
        if isinstance(error, asyncio.CancelledError):
            mark_graceful()
        raise
    await _end(subject, task)
    if (failure := _failure(task)) is not None:
        raise failure


async def _until_ready(task: asyncio.Task[None], ready: asyncio.Event) -> None:
    waiting = asyncio.create_task(ready.wait(), name="manager ready")
    try:
        await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    if task.done():
        task.result()
        if not ready.is_set():
            raise StoppedWhileStarting


@contextlib.contextmanager
def _interrupted_by(task: asyncio.Task[None]) -> Iterator[None]:
    """Cancel the block when ``task`` fails, and raise the failure instead of CancelledError."""
    host = asyncio.current_task()
    assert host is not None  # noqa: S101 - a coroutine runs in one
    requested_before = host.cancelling()
    interrupted = left = False

    def interrupt(ended: asyncio.Task[None]) -> None:
        nonlocal interrupted
        if not left and _failure(ended) is not None:
            interrupted = host.cancel()  # False where the block belongs to another task by now

    task.add_done_callback(interrupt)
    try:
        yield
    except asyncio.CancelledError:
        failure = _failure(task)
        if interrupted and host.uncancel() <= requested_before and failure is not None:
            raise failure from None
        raise
    except BaseException:
        if interrupted:
            host.uncancel()
        raise
    else:
        if interrupted:
            host.uncancel()
    finally:
        left = True  # the callback may be scheduled already
        task.remove_done_callback(interrupt)


async def _end(subject: Startable, task: asyncio.Task[None]) -> None:
    """Stop in order; a cancellation meanwhile cancels what is left."""
    subject.stop()
    if (cancelled := await outlast(task, task.cancel)) is not None:
        raise cancelled


async def outlast(
    task: asyncio.Future[Any], hurry: Callable[[], object] = lambda: None
) -> asyncio.CancelledError | None:
    """Wait for the end of a task whatever cancels the caller, which must not leave it behind.

    Each cancellation calls ``hurry``; a cancel scope of anyio has one at each turn. Returns the last one.
    """
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
            hurry()
    return cancelled


def _failure(task: asyncio.Task[None]) -> BaseException | None:
    return task.exception() if task.done() and not task.cancelled() else None


def _raise_both(error: BaseException, failure: BaseException | None) -> None:
    """Raise what ``failure`` adds to ``error``; return if it adds nothing."""
    if failure is None or failure is error:
        return
    if isinstance(error, asyncio.CancelledError):
        raise failure from None
    if isinstance(error, Exception) and isinstance(failure, Exception):
        raise ExceptionGroup("the block and its manager failed", [error, failure]) from None
