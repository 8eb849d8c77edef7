"""Starting a server on a free port, and on another one if that was taken meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from ctrlruntime.clock import monotonic
from ctrlruntime.envtest.backends.ports import free_port
from ctrlruntime.envtest.process import ChildProcess, ProcessFailed

TRIES: Final = 5
_POLL_SECONDS: Final = 0.1
_PORT_TAKEN: Final = "address already in use"

Command = Callable[[int], Sequence[str]]
"""The command line for a port."""
Check = Callable[[int], Awaitable[bool]]
"""Whether the server we started answers on the port. Must tell it from a stranger's."""


class PortTaken(ProcessFailed):
    """The server ended because its port was not free."""


async def launch(
    name: str,
    command: Command,
    check: Check,
    *,
    log: Path,
    timeout: float,
    first_port: int | None = None,
) -> tuple[ChildProcess, int]:
    """Start a server on a free port and wait until it answers; the process and its port.

    `first_port` is tried first. Raises ProcessFailed with the end of its log when it ends, or is not ready in `timeout` seconds.
    """
    for attempt in range(TRIES):
        port = first_port if first_port and attempt == 0 else free_port()
        try:
            return await launch_on(name, port, command, check, log=log, timeout=timeout), port
        except PortTaken:
            if attempt == TRIES - 1:
                raise
    raise AssertionError("unreachable")


async def launch_on(
    name: str, port: int, command: Command, check: Check, *, log: Path, timeout: float
) -> ChildProcess:
    """Return the same on one port. Raises PortTaken where it is not free."""
    before = _size(log)
    try:
        process = ChildProcess.spawn(command(port), log=log)
    except OSError as error:
        raise ProcessFailed(f"{name} cannot be run: {error}") from error
    try:
        await _ready(name, process, port, check, timeout)
    except ProcessFailed:
        await process.stop(grace=0)
        if _PORT_TAKEN in _written_since(log, before):
            raise PortTaken(f"{name}: port {port} is taken") from None
        raise
    except BaseException:
        await process.stop(grace=0)
        raise
    return process


async def _ready(name: str, process: ChildProcess, port: int, check: Check, timeout: float) -> None:
    deadline = monotonic() + timeout
    while True:
        answers = await check(port)
        if not process.running:
            raise ProcessFailed(
                f"{name} ended with code {process.returncode}; its log {process.log} ends:\n"
                f"{process.log_tail()}"
            )
        if answers:
            return
        if monotonic() > deadline:
            raise ProcessFailed(
                f"{name} was not ready within {timeout:g} s; its log {process.log} ends:\n"
                f"{process.log_tail()}"
            )
        await asyncio.sleep(_POLL_SECONDS)


def _size(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


def _written_since(log: Path, offset: int) -> str:
    with log.open("rb") as file:
        file.seek(offset)
        return file.read().decode(errors="replace")
