"""Tells when a local run is over, without asking: its processes hold a pipe until the last is gone."""

import asyncio
import os
from collections.abc import Callable

from internal.cloud.runs.local import supervisor
from internal.cloud.runs.local.folder import RunFolder

__all__ = ["EndWatch"]

_AGAIN = 0.05


class EndWatch:
    """Calls `over` once, on this loop, when no process of the run is left."""

    def __init__(self, folder: RunFolder, over: Callable[[], None]) -> None:
        self._folder = folder
        self._over = over
        self._loop = asyncio.get_running_loop()
        self._later: asyncio.TimerHandle | None = None
        self._pipe: int | None = self._open()
        if self._pipe is not None:
            self._loop.add_reader(self._pipe, self._look)
        if self._pipe is None or not folder.is_alive():  # the pipe of one that is over stays silent
            self._later = self._loop.call_later(0, self._look)

    def close(self) -> None:
        """Report nothing from now on."""
        if self._later is not None:
            self._later.cancel()
        if self._pipe is not None:
            self._loop.remove_reader(self._pipe)
            os.close(self._pipe)
            self._pipe = None

    def _open(self) -> int | None:
        try:
            return os.open(self._folder.path / supervisor.ALIVE, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            return None

    def _look(self) -> None:
        self.close()
        if self._folder.is_alive():  # pipe and lock are let go one after the other
            self._later = self._loop.call_later(_AGAIN, self._look)
            return
        self._over()
