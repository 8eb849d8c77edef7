"""How a child process is ended: waited for to its end, however often the waiter is cancelled."""

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import Any

_PIPES = (0, 1, 2)


async def end_process(process: asyncio.subprocess.Process) -> None:
    """Kill a process, unless it is over, close its pipes and wait for its end.

    A process that is not awaited outlives the loop with its pipes open. So a cancellation while it
    waits takes effect once the process is over: a second one, and those of a loop that closes, which
    reach every task. What the process printed and nothing has read yet is lost.
    """
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    _close_pipes(process)
    cancelled: asyncio.CancelledError | None = None
    while process.returncode is None:
        try:
            await process.wait()
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def _close_pipes(process: asyncio.subprocess.Process) -> None:
    """Close what asyncio keeps open until all output was read, or a grandchild has closed its end."""
    transport: asyncio.SubprocessTransport = process._transport  # type: ignore[attr-defined]
    for number in _PIPES:
        pipe = transport.get_pipe_transport(number)
        if pipe is not None:
            pipe.close()


async def uninterrupted(work: Coroutine[Any, Any, object]) -> None:
    """Await `work` to its end; a cancellation meanwhile takes effect after it.

    Not for what a closing loop must not end: that cancels the work too.
    """
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
