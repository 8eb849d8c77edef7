"""Signals: the first stops in order, the second ends the process."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class ShutdownSignals:
    """SIGTERM and SIGINT of a process while its event loop runs.

    The first calls the innermost handler, a second ends the process with status 1.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        """The first signal."""
        self.graceful = False
        """Whether a manager was cancelled and has stopped everything in order."""
        self._handlers: list[Callable[[], object]] = []

    @contextmanager
    def handler(self, stop: Callable[[], object]) -> Iterator[None]:
        """Call ``stop`` at the first signal, instead of the handler before, for the length of the block."""
        self._handlers.append(stop)
        try:
            yield
        finally:
            self._handlers.remove(stop)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Receive the signals on the running loop, which must be the main thread's."""
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._receive, number)
        token = _installed.set(self)
        try:
            yield
        finally:
            _installed.reset(token)
            for number in STOP_SIGNALS:
                loop.remove_signal_handler(number)

    def _receive(self, number: signal.Signals) -> None:
        if self.received is not None:
            os._exit(1)
        self.received = number
        if self._handlers:
            self._handlers[-1]()


_installed: ContextVar[ShutdownSignals | None] = ContextVar("ctrlruntime_signals", default=None)


@contextmanager
def stop_on_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Call ``stop`` at the first SIGTERM or SIGINT; the second ends the process with status 1.

    For the main thread of a running loop. Within ``run()`` this replaces its handler for the length
    of the block; elsewhere the handlers are removed at the end.
    """
    signals = _installed.get()
    if signals is not None:
        with signals.handler(stop):
            yield
        return
    signals = ShutdownSignals()
    with signals.installed(), signals.handler(stop):
        yield


def mark_graceful() -> None:
    """Record for ``run()`` that a cancelled manager has stopped everything in order."""
    signals = _installed.get()
    if signals is not None:
        signals.graceful = True
