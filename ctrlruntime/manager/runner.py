"""Runs a program's main coroutine as a process should run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import traceback
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

from ctrlruntime.manager.leadership import LeaderElectionLost
from ctrlruntime.manager.manager import GracePeriodExceeded
from ctrlruntime.manager.signals import ShutdownSignals

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T], *, debug: bool = False) -> T:
    """Run ``main`` on a uvloop event loop and return its result.

    The first SIGTERM or SIGINT cancels ``main``, and so stops its manager in order and releases the
    Lease; the process then ends with status 0. Without a manager SIGTERM ends it with status 143 and
    SIGINT with KeyboardInterrupt, after ``main`` has cleaned up. A second signal ends it at once with
    status 1. A manager with ``handle_signals`` is stopped instead, and ``main`` continues.

    A TLS connection costs 63 KiB there, on asyncio's own loop 304. When a manager lost its lease,
    or its runnables did not end in time, the process exits with status 1 at once: closing the loop
    would wait for what is stuck, while another leader may be at work.
    """
    signals = ShutdownSignals()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop, debug=debug) as runner:
        try:
            return runner.run(_guarded(main, signals))
        except asyncio.CancelledError:
            if signals.received is None:
                raise
    if signals.graceful:
        raise SystemExit(0)
    if signals.received == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + signals.received)


async def _guarded(main: Coroutine[Any, Any, T], signals: ShutdownSignals) -> T:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - this coroutine runs in one
    in_main_thread = threading.current_thread() is threading.main_thread()
    receiving = signals.installed() if in_main_thread else contextlib.nullcontext()
    with receiving, signals.handler(task.cancel):
        try:
            return await main
        except* (LeaderElectionLost, GracePeriodExceeded):
            traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(1)
