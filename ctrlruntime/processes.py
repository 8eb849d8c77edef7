"""How a child process is ended: waited for to its end, however often the waiter is cancelled."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any


async def end_process(process: asyncio.subprocess.Process) -> None:
    """Kill a process, unless it is over, and wait until nothing of it is left on the event loop.

    A process that is not awaited outlives the loop with its pipes open. So a cancellation while it
    waits, even a second one, takes effect once the process is over.
    """
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    if process.stdin is not None:
        process.stdin.close()
    await uninterrupted(process.wait())


async def uninterrupted(work: Coroutine[Any, Any, object]) -> None:
    """Await `work` to its end; a cancellation meanwhile takes effect after it."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            cancelled = error
    task.result()
    if cancelled is not None:
        raise cancelled
