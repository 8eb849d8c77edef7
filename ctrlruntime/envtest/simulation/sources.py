"""Clocks, chance and threads of the code under simulation: all of them come from the loop and the seed.

ctrlruntime reads time and chance in one place, `ctrlruntime.clock`. Controllers under test, and libraries, may
use Python's own: those are replaced here as well, and pass every call on where no simulation runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
import random
import sys
import sysconfig
import time
import types
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextvars import copy_context
from typing import Any, Final

import aiohappyeyeballs

from ctrlruntime import clock
from ctrlruntime.envtest.simulation import logs
from ctrlruntime.envtest.simulation.loop import Forbidden, SimLoop
from ctrlruntime.envtest.simulation.process import Process, current
from ctrlruntime.manager import leadership, loopthread, manager

EPOCH: Final = dt.datetime(2030, 1, 1, tzinfo=dt.UTC).timestamp()
"""The time of day at second 0 of a loop's clock."""
_CLOCKS: Final = {
    name: getattr(time, name)
    for name in (
        "monotonic",
        "monotonic_ns",
        "perf_counter",
        "perf_counter_ns",
        "sleep",
        "time",
        "time_ns",
    )
}
_NANO: Final = 1e9
_HEARTBEAT: Final = 3.0
"""Seconds between two measurements of a loop by its election, more than in production: they are most steps of an idle time."""
_URANDOM: Final = os.urandom
_DATETIME: Final = dt.datetime
_MAKE_DATETIME: Final[Any] = dt.datetime
_START_CONNECTION: Final[Any] = aiohappyeyeballs.start_connection


class World:
    """What one run draws from: its loop, and the offset of each process's time of day."""

    def __init__(self, loop: SimLoop, seed: str, cost: Callable[[], float] | None = None) -> None:
        """`cost` returns the seconds that pass when a process looks at a clock."""
        self.loop = loop
        self.skews: dict[str, float] = {}
        """Seconds by which the time of day of a process is off, by its name."""
        self._draw = random.Random(f"{seed}/draws")
        self._cost = cost

    def sources(self) -> clock.Sources:
        """Return them in the form that ctrlruntime takes."""
        return clock.Sources(
            monotonic=self.monotonic,
            boottime=self.monotonic,
            perf=self.monotonic,
            wall=self.wall,
            random=self._draw.random,
            random_bytes=self.random_bytes,
        )

    def monotonic(self) -> float:
        """Return the loop's seconds."""
        if self._cost is not None:
            self.loop.spend(self._cost())
        return self.loop.time()

    def wall(self) -> float:
        """Return the seconds since 1970 on the clock of the process that this runs in."""
        process = current()
        skew = self.skews.get(process.root.name, 0.0) if process is not None else 0.0
        return EPOCH + self.loop.time() + skew

    def random_bytes(self, count: int) -> bytes:
        """Return bytes for names and identifiers."""
        return self._draw.randbytes(count)


_worlds: list[World] = []
"""The world that runs now, if any."""


@contextlib.contextmanager
def running(world: World, seed: str) -> Iterator[None]:
    """Take time and chance from `world` for the length of the block. Needs `installed`."""
    state = random.getstate()
    random.seed(f"{seed}/random")
    _worlds.append(world)
    try:
        with clock.replaced(world.sources()):
            yield
    finally:
        _worlds.pop()
        random.setstate(state)


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Put these sources in the place of Python's own within the block, also where a module under test has imported them by name."""
    clocks = {real: _clock(name, real) for name, real in _CLOCKS.items()}
    replaced: dict[Any, Any] = {**clocks, _DATETIME: SimulatedDatetime}
    undo = [_set(time, name, clocks[real]) for name, real in _CLOCKS.items()]
    undo += [
        _set(os, "urandom", _urandom),
        _set(random, "_urandom", _urandom),
        _set(aiohappyeyeballs, "start_connection", _start_connection),
        _set(leadership, "LoopThread", ElectionProcess),
        _set(leadership, "PERIOD", _HEARTBEAT),
        _set(loopthread, "PERIOD", _HEARTBEAT),
        _set(manager, "LoopWatchdog", _NoWatchdog),
    ]
    for module in [each for each in sys.modules.values() if _is_under_test(each)]:
        for name, value in list(vars(module).items()):
            if isinstance(value, type | types.BuiltinFunctionType) and value in replaced:
                undo.append(_set(module, name, replaced[value]))
    try:
        with logs.kept():
            yield
    finally:
        for back in reversed(undo):
            back()


def _set(owner: object, name: str, value: object) -> Callable[[], None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    return lambda: setattr(owner, name, before)


_LIBRARIES: Final = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


def _is_under_test(module: object) -> bool:
    """Whether it is a module of no library. Those of ctrlruntime have `ctrlruntime.clock`."""
    file = getattr(module, "__file__", None)
    if not file or not isinstance(module, types.ModuleType):
        return False
    return not (file.startswith(_LIBRARIES) or module.__name__.startswith("ctrlruntime."))


# -- what is put in their place --------------------------------------------------------------------


def _clock(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
    def read(*args: object) -> object:
        if not _worlds:
            return real(*args)
        world = _worlds[-1]
        match name:
            case "sleep":
                raise Forbidden("time.sleep stops the loop: await asyncio.sleep instead")
            case "time":
                return world.wall()
            case "time_ns":
                return int(world.wall() * _NANO)
            case "monotonic_ns" | "perf_counter_ns":
                return int(world.monotonic() * _NANO)
        return world.monotonic()

    return read


def _urandom(count: int, /) -> bytes:
    return _worlds[-1].random_bytes(count) if _worlds else _URANDOM(count)


async def _start_connection(addr_infos: Sequence[tuple[Any, ...]], **options: object) -> object:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, SimLoop):
        return await _START_CONNECTION(addr_infos, **options)
    return await loop.network.connect_socket(tuple(addr_infos[0][4][:2]))


class _Real(type):
    """Makes plain instances of `datetime`, and has them count as those of the class that stands in for it."""

    def __call__(cls, *args: object, **kwargs: object) -> dt.datetime:
        made: dt.datetime = _MAKE_DATETIME(*args, **kwargs)
        return made

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _DATETIME)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _DATETIME)

    def __getattr__(cls, name: str) -> object:
        return getattr(_DATETIME, name)


class SimulatedDatetime(metaclass=_Real):
    """`datetime` with another now."""

    @staticmethod
    def now(tz: dt.tzinfo | None = None) -> dt.datetime:
        """Return the time of day of the process that this runs in."""
        return _DATETIME.fromtimestamp(_worlds[-1].wall(), tz) if _worlds else _DATETIME.now(tz)


class _NoWatchdog:
    """In place of the manager's: ten timers a second that could find nothing in virtual time."""

    needs_leader_election = False

    def __init__(self, *_: object, **__: object) -> None:
        self._ended = asyncio.Event()

    async def start(self) -> None:
        """Run until cancelled."""
        await self._ended.wait()


class ElectionProcess:
    """In place of a thread with a loop: a child process of the simulation, which goes on while its parent stands still.

    See `ctrlruntime.manager.loopthread.LoopThread`, whose interface it has.
    """

    def __init__(self, main: Callable[[Any], Coroutine[Any, Any, None]], name: str) -> None:
        self.owner = asyncio.get_running_loop()
        self._here = copy_context()
        parent = current()
        child = Process(f"{parent.name}/election", parent) if parent else None
        self._context = child.context() if child else copy_context()
        self._task = self.owner.create_task(self._run(main), name=name, context=self._context)

    async def _run(self, main: Callable[[Any], Coroutine[Any, Any, None]]) -> None:
        await asyncio.gather(asyncio.create_task(main(self)), return_exceptions=True)

    def call_owner(self, function: Callable[[], None]) -> None:
        """Have the parent call something."""
        self.owner.call_soon(function, context=self._here)

    def call(self, function: Callable[[], None]) -> None:
        """Have the child call something; nothing if the coroutine has ended."""
        if not self._task.done():
            self.owner.call_soon(function, context=self._context.copy())

    @property
    def orphaned(self) -> bool:
        """Whether the parent is gone: never, as it goes with its parent."""
        return False

    async def stop(self) -> None:
        """Cancel the coroutine and wait until it has ended."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
