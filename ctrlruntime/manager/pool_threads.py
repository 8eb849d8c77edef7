"""Threads of executors that work: what a reconcile left behind that was cancelled while it awaited one."""

import sys
import threading
from types import FrameType
from typing import Final

_WORKER: Final = ("_worker", "concurrent.futures.thread")
"""The function that each thread of a ThreadPoolExecutor runs, and its module."""


def working_threads() -> list[str]:
    """Return the names of the threads of executors that work at this moment, as after ``asyncio.to_thread``.

    A cancellation ends the await and not the thread. One that waits for work stands in the worker's own frame;
    one that works has frames above it.
    """
    frames = sys._current_frames()
    found = ((each.name, frames.get(each.ident or 0)) for each in threading.enumerate())
    return [name for name, frame in found if frame is not None and _works(frame)]


def _works(top: FrameType) -> bool:
    frame = top.f_back
    while frame is not None:
        if _is_worker(frame):
            return not _is_worker(top)
        frame = frame.f_back
    return False


def _is_worker(frame: FrameType) -> bool:
    return (frame.f_code.co_name, frame.f_globals.get("__name__")) == _WORKER
