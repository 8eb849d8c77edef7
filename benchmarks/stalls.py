"""How long an event loop stands still."""

from __future__ import annotations

import asyncio
import collections
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

ALLOWED = 0.05
SAMPLE = 0.005
PLACES = 8


@dataclass(slots=True)
class Stalls:
    """A heartbeat on the loop that says how late it came, and a thread that sees what ran then.

    What counts is the time the loop's own thread was at work: on a busy machine others take turns.
    """

    allowed: float = ALLOWED
    longest: list[tuple[float, str]] = field(default_factory=list)
    """Those longer than allowed, in seconds, with what ran then."""
    most: float = 0.0
    """The longest of all, in seconds."""
    wall: float = 0.0
    beat: float = 0.0
    _stacks: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    async def beats(self) -> None:
        """Run on the loop until cancelled."""
        while True:
            self.beat, worked = time.perf_counter(), time.thread_time()
            self._stacks.clear()
            await asyncio.sleep(SAMPLE)
            self.wall = max(self.wall, time.perf_counter() - self.beat - SAMPLE)
            held = time.thread_time() - worked - SAMPLE
            self.most = max(self.most, held)
            if held > self.allowed:
                common = collections.Counter(self._stacks).most_common(1)
                self.longest.append((held, common[0][0] if common else "?"))

    def watch(self, thread: int) -> None:
        """Run in a thread of its own."""
        while not self._stop.wait(SAMPLE):
            frame = sys._current_frames().get(thread)
            if frame is not None and time.perf_counter() - self.beat > SAMPLE:
                self._stacks.append(summary(frame))

    def end(self) -> None:
        """Stop watching."""
        self._stop.set()


def summary(frame: FrameType) -> str:
    """The innermost eight places of a stack; of imports only what imports."""
    found = [p for p in traceback.extract_stack(frame) if not p.filename.startswith("<frozen")]
    return " > ".join(f"{Path(p.filename).stem}:{p.name}:{p.lineno}" for p in found[-PLACES:])


@contextmanager
def watching(*, allowed: float = ALLOWED) -> Iterator[Stalls]:
    """Stalls of the running loop; those longer than `allowed` seconds are kept."""
    stalls = Stalls(allowed=allowed, beat=time.perf_counter())
    beats = asyncio.ensure_future(stalls.beats())
    thread = threading.Thread(target=stalls.watch, args=(threading.get_ident(),), daemon=True)
    thread.start()
    try:
        yield stalls
    finally:
        stalls.end()
        beats.cancel()
