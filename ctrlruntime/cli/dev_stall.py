"""Code under development that does not yield to the event loop: where it stands still is shown, and it can be ended.

While it does, the loop reads no signal and no file. A thread measures that; a signal interrupts the main thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import linecache
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Final

from ctrlruntime.cli.dev_project import is_in_project
from ctrlruntime.clock import monotonic
from ctrlruntime.manager.loopthread import PERIOD, Heartbeat, LoopThread
from ctrlruntime.manager.signals import STOP_SIGNALS

SHOWN_AFTER: Final = 4.0
"""Seconds after which the place is shown."""
ENDED_AFTER: Final = 1.0
"""Seconds after which Ctrl-C ends what stands still: until then the loop may go on and end the command itself."""
INTERRUPT: Final = signal.SIGURG
"""Ignored where nothing handles it, so that one that comes too late does nothing."""
DEBUGGERS: Final = frozenset({"bdb", "pdb", "ipdb", "pudb", "pydevd", "_pydevd_bundle", "debugpy"})
"""Modules in which code stands still because a developer wants it to."""
LIBRARY: Final = frozenset({"ctrlruntime", "asyncio", "uvloop"})
"""Packages whose own code is not interrupted: it may be halfway through a change of its state."""


class StoodStill(BaseException):
    """Raised in code that stands still, so that other code runs; no Exception, which such code might catch."""


class StallWatch:
    """Shows where the loop stands still, and interrupts it for Ctrl-C and for a changed file."""

    def __init__(
        self,
        folder: Path,
        note: Callable[[str], None],
        changed: Callable[[], Collection[str]],
        *,
        interruptible: Collection[CodeType],
    ) -> None:
        """Watch the code of a project; `changed` returns the files that were changed since they were loaded.

        `interruptible` catch StoodStill: it is raised in what they call, and nowhere else.
        """
        self._folder = folder
        self._note = note
        self._changed = changed
        self._interruptible = interruptible
        self._main = threading.get_ident()
        self._heartbeat: Heartbeat | None = None
        self._stopping = False
        self._shown = 0.0
        """For how long what is shown has stood still, in seconds; 0: nothing is shown."""

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch the running loop, the main thread's, for the length of the block; Ctrl-C reaches that loop as before."""
        handlers = dict.fromkeys(STOP_SIGNALS, self._stop) | {INTERRUPT: self._interrupt}
        former = {number: signal.signal(number, each) for number, each in handlers.items()}
        thread = LoopThread(self._watch, "watch for code that stands still")
        try:
            yield
        finally:
            await thread.stop()
            for number, handler in former.items():
                signal.signal(number, handler)

    # -- in the thread -----------------------------------------------------------------------

    async def _watch(self, thread: LoopThread) -> None:
        self._heartbeat = Heartbeat(thread.call_owner, monotonic)
        while not thread.orphaned:
            await asyncio.sleep(PERIOD)
            self._judge(self._heartbeat.measure())

    def _judge(self, still: float) -> None:
        if self._shown and not still:
            self._note(f"it goes on, after {self._shown:.0f} s")
        if not still:
            self._shown = 0.0
            return
        frame = sys._current_frames().get(self._main)
        if frame is None or is_debugged(frame):
            return
        if still >= SHOWN_AFTER:
            if not self._shown:
                self._note(
                    f"{self._place(frame)}; nothing else runs meanwhile: {self._remedy(frame)}"
                )
            self._shown = still
        if (self._stopping and still >= ENDED_AFTER) or (self._shown and self._changed()):
            signal.pthread_kill(self._main, INTERRUPT)

    def _place(self, frame: FrameType) -> str:
        """Return which function of the project stands still, and where; else that in which the process is."""
        frames = list(callers(frame))
        own = next((f for f in frames if is_in_project(self._folder, f.f_code.co_filename)), frame)
        path = Path(own.f_code.co_filename)
        name = path.relative_to(self._folder) if path.is_relative_to(self._folder) else path
        line = linecache.getline(str(path), own.f_lineno).strip()
        within = f", in {module_of(frame)}.{frame.f_code.co_name}" if own is not frame else ""
        return f"{own.f_code.co_qualname} stands still at {name}:{own.f_lineno} ({line}){within}"

    def _remedy(self, frame: FrameType) -> str:
        if self._is_interruptible(frame):
            return "a change of its file interrupts it, Ctrl-C ends the command"
        return "Ctrl-C, given twice, ends the command"

    # -- in the main thread ------------------------------------------------------------------

    def _stop(self, _: int, frame: FrameType | None) -> None:
        """Handle Ctrl-C, or SIGTERM, beside the loop, which gets it when it runs; a second one ends the process at once."""
        if frame is not None and is_debugged(frame):
            return
        if self._stopping:
            os._exit(1)
        self._stopping = True

    def _interrupt(self, _: int, frame: FrameType | None) -> None:
        """Raise StoodStill, if the loop still stands still, and where that is caught."""
        if frame is None or self._heartbeat is None or self._heartbeat.answered:
            return
        if not is_debugged(frame) and self._is_interruptible(frame):
            raise StoodStill("interrupted: it did not yield to the event loop")

    def _is_interruptible(self, frame: FrameType) -> bool:
        if module_of(frame).partition(".")[0] in LIBRARY:
            return False
        return any(each.f_code in self._interruptible for each in callers(frame))


def callers(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and those that led to it."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def module_of(frame: FrameType) -> str:
    """Return the name of a frame's module."""
    return str(frame.f_globals.get("__name__"))


def is_debugged(frame: FrameType) -> bool:
    """Whether a debugger may have stopped the code: in these frames, or one that is attached."""
    if {"pydevd", "debugpy"} & sys.modules.keys():
        return True
    return any(module_of(each).partition(".")[0] in DEBUGGERS for each in callers(frame))
