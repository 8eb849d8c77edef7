"""Time, and what is drawn at random: the two things that a process cannot compute.

Everything in this project reads them here, when it needs them, from one :class:`Sources`. So whoever
puts others in their place (a simulation in virtual time, a test) decides all of them at once, also
for what was imported before:

    with replaced(Sources(monotonic=loop.time, random_bytes=seeded.randbytes)):
        ...

What waits takes the time of its event loop, which is a source of its own.
"""

from __future__ import annotations

import contextlib
import random as _random
import secrets as _secrets
import time as _time
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar

T = TypeVar("T")


def _boottime() -> float:
    if hasattr(_time, "CLOCK_BOOTTIME"):
        return _time.clock_gettime(_time.CLOCK_BOOTTIME)
    return _time.monotonic()


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where time and chance come from; by default the machine and the operating system."""

    monotonic: Callable[[], float] = _time.monotonic
    """Seconds that never go back."""
    boottime: Callable[[], float] = _boottime
    """Seconds that never go back, and pass while the machine sleeps too, where it can tell."""
    perf: Callable[[], float] = _time.perf_counter
    """Seconds to measure short times by."""
    processor: Callable[[], float] = _time.process_time
    """Seconds of processor time that this process has used."""
    wall: Callable[[], float] = _time.time
    """Seconds since the epoch."""
    random: Callable[[], float] = _random.random
    """A number from 0 to 1, without 1, for what only has to differ: pauses, order."""
    random_bytes: Callable[[int], bytes] = _secrets.token_bytes
    """So many bytes that cannot be guessed, for names, identifiers, passwords and keys."""


_sources = Sources()


@contextlib.contextmanager
def replaced(sources: Sources) -> Iterator[None]:
    """Take time and chance from ``sources`` within the block, in the whole process."""
    global _sources  # noqa: PLW0603 - the one place; see the module's docstring
    former, _sources = _sources, sources
    try:
        yield
    finally:
        _sources = former


def monotonic() -> float:
    """Return seconds that never go back; only differences mean something."""
    return _sources.monotonic()


def boottime() -> float:
    """Return seconds that never go back and pass while the machine sleeps too.

    What a lease is counted by: the loop's own clock stands still during a turn.
    """
    return _sources.boottime()


def perf() -> float:
    """Return seconds to measure short times by."""
    return _sources.perf()


def processor() -> float:
    """Return seconds of processor time that this process has used; only differences mean something."""
    return _sources.processor()


def wall() -> float:
    """Return seconds since the epoch."""
    return _sources.wall()


def utc_now() -> datetime:
    """Return the time of day in UTC."""
    return datetime.fromtimestamp(_sources.wall(), UTC)


def draw() -> float:
    """Return a number from 0 to 1, without 1. No secret: whoever saw many can foretell the next."""
    return _sources.random()


def draw_between(low: float, high: float) -> float:
    """Return a number from ``low`` to ``high``. No secret."""
    return low + (high - low) * _sources.random()


def random_bytes(count: int) -> bytes:
    """Return bytes that cannot be guessed."""
    return _sources.random_bytes(count)


def random_hex(count: int) -> str:
    """Return ``count`` bytes that cannot be guessed, as twice as many hexadecimal digits."""
    return _sources.random_bytes(count).hex()


def random_choice(options: Sequence[T]) -> T:
    """Return one of ``options``, each as likely as the others; it cannot be guessed."""
    bits = (len(options) - 1).bit_length()
    while True:  # numbers past the end are drawn again: a remainder would favour the first ones
        found = int.from_bytes(_sources.random_bytes((bits + 7) // 8 or 1), "big") >> (-bits % 8)
        if found < len(options):
            return options[found]


def new_uid() -> str:
    """Return a UUID of version 4."""
    return str(uuid.UUID(bytes=_sources.random_bytes(16), version=4))
