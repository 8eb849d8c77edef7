"""How long an event loop stands still."""

from __future__ import annotations

import asyncio
import collections
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

ALLOWED = 0.05
SAMPLE = 0.005
PLACES = 8


@dataclass(slots=True)
class Stalls:
    """A heartbeat on the loop that says how late it came, and samples of what ran then.

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

    def sample(self, _: int, frame: FrameType | None) -> None:
        """Handle the timer's signal. A thread that reads the frames of another can end the process."""
        if frame is not None and time.perf_counter() - self.beat > SAMPLE:
            self._stacks.append(summary(frame))


def summary(frame: FrameType | None) -> str:
    """The innermost eight places of a stack; of imports only what imports."""
    found: list[str] = []
    while frame is not None and len(found) < PLACES:
        code = frame.f_code
        if not code.co_filename.startswith("<frozen"):
            file = code.co_filename.rpartition("/")[2].removesuffix(".py")
            found.append(f"{file}:{code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return " > ".join(reversed(found))


@contextmanager
def watching(*, allowed: float = ALLOWED) -> Iterator[Stalls]:
    """Stalls of the running loop, in the main thread; those longer than `allowed` seconds are kept."""
    stalls = Stalls(allowed=allowed, beat=time.perf_counter())
    beats = asyncio.ensure_future(stalls.beats())
    before = signal.signal(signal.SIGPROF, stalls.sample)
    signal.setitimer(signal.ITIMER_PROF, SAMPLE, SAMPLE)
    try:
        yield stalls
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        beats.cancel()
