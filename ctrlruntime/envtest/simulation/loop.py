"""An event loop in virtual time, without selector, descriptors and threads.

What is ready runs in the order in which it became ready, and timers of one moment in the order in
which they were set, so that a run depends on nothing but what is drawn from its seed.
"""

from __future__ import annotations

import asyncio
import functools
import heapq
import random
import socket
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import Context
from operator import attrgetter
from typing import Any, Final, NoReturn, TypeVar, TypeVarTuple, Unpack, cast

from ctrlruntime.envtest.simulation.network import Network, SimSocket
from ctrlruntime.envtest.simulation.process import CURRENT
from ctrlruntime.envtest.simulation.trace import Trace

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START: Final = 1000.0
"""What the loop's clock shows at the beginning, in seconds."""
LIVELOCK: Final = 20_000
"""Turns of the loop without time that passes, after which something runs in circles."""


_ARGUMENTS: Final = ("protocol_factory", "host", "port")
_CONTEXT: Final[Callable[[asyncio.Handle], Context]] = attrgetter("_context")
_CALLBACK: Final[Callable[[asyncio.Handle], object]] = attrgetter("_callback")


class Livelock(RuntimeError):
    """Tasks wake each other for ever without time that passes."""


class NothingLeft(RuntimeError):
    """Nothing is ready and no timer is set: what is waited for can never happen."""


class Forbidden(RuntimeError):
    """The code used what no seed decides: a real socket, descriptor, thread or process."""


class SimLoop(asyncio.BaseEventLoop):
    """Runs everything of one seed. ``shuffled`` draws the order of tasks that are ready in the same turn.

    Timers, callbacks and what a connection delivers are never permuted: their order is a promise.
    """

    def __init__(
        self, network: Network, trace: Trace, shuffled: random.Random | None = None
    ) -> None:
        super().__init__()
        self.network = network
        self.trace = trace
        self._shuffled = shuffled
        self._now = START
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_number = 0
        self._turns_without_time = 0
        self._ready: deque[asyncio.Handle]
        self._stopping: bool
        self.steps = 0

    # -- time ------------------------------------------------------------------------------------

    def time(self) -> float:
        """Return the seconds that have passed, from a start of its own."""
        return self._now

    def spend(self, seconds: float) -> None:
        """Let time pass within a step: the step took that long."""
        if seconds > 0:
            self._now += seconds
            self._turns_without_time = 0

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Return a timer that fires after ``delay`` seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Ts]], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Return a timer that fires at ``when``; those of one moment fire in the order they were set."""
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        self._timer_number += 1
        heapq.heappush(self._timers, (when, self._timer_number, timer))
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Leave it in the heap: it is dropped when its time comes."""

    # -- one turn ----------------------------------------------------------------------------------

    def _run_once(self) -> None:
        timers, ready = self._timers, self._ready
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if not ready and not self._stopping:
            if not timers:
                raise NothingLeft("no task is ready and no timer is set: the run waits for ever")
            if timers[0][0] > self._now:
                self._now = timers[0][0]
                self._turns_without_time = 0
        while timers and timers[0][0] <= self._now:
            timer = heapq.heappop(timers)[2]
            if not timer.cancelled():
                ready.append(timer)
        self._turns_without_time += 1
        if self._turns_without_time > LIVELOCK:
            raise Livelock(f"{LIVELOCK} turns without time that passes; {_named(ready[0])} is next")
        turn = [*ready]
        ready.clear()
        if self._shuffled is not None and len(turn) > 1:
            _permute_tasks(turn, self._shuffled)
        self._run(turn)

    def _run(self, turn: list[asyncio.Handle]) -> None:
        at, steps = self._now, []
        for handle in turn:
            if handle._cancelled:
                continue
            process = _CONTEXT(handle).get(CURRENT)
            if process is None:
                steps.append(f" {_named(handle)}")
            elif process.holds(handle):
                continue
            else:
                steps.append(f"{process.name} {_named(handle)}")
            handle._run()
        self.steps += len(steps)
        self.trace.turn(at, steps)

    def wake(self, handles: list[asyncio.Handle]) -> None:
        """Make steps ready that were held back."""
        self._ready.extend(handles)

    # -- what other loops leave to the system --------------------------------------------------------

    def _process_events(self, event_list: object) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Nothing sleeps that could be woken."""

    def run_in_executor(
        self, executor: object, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Run it as a step of its own, later in this thread. An executor of the caller is refused."""
        if executor is not None:
            raise Forbidden(
                "an executor of its own: its threads run in no order that a seed decides"
            )
        future: asyncio.Future[T] = self.create_future()
        self.call_soon(_complete, future, functools.partial(func, *args))
        return future

    async def getaddrinfo(self, host: object, port: object, **_: object) -> list[Any]:
        """Return one address, which only this loop can connect to."""
        address = (_text(host), int(str(port)))
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address)]

    async def create_server(self, *args: object, **options: object) -> asyncio.Server:
        """Listen in memory. TLS and sockets are refused."""
        factory, host, port = _arguments(args, options)
        if options.get("ssl") is not None or options.get("sock") is not None:
            raise Forbidden("servers of a simulation have neither TLS nor sockets")
        server = self.network.listen(factory, _text(host or "127.0.0.1"), int(str(port or 0)))
        return cast("asyncio.Server", server)

    async def create_connection(
        self, *args: object, **options: object
    ) -> tuple[asyncio.Transport, Any]:
        """Connect in memory, by name or by what `Network.connect_socket` returned. Raises OSError."""
        factory, host, port = _arguments(args, options)
        if options.get("ssl"):
            raise Forbidden("connections of a simulation have no TLS")
        sock = options.get("sock")
        if sock is None:
            sock = await self.network.connect_socket((_text(host), int(str(port))))
        if not isinstance(sock, SimSocket):
            raise Forbidden("a real socket")
        return self.network.open(self, sock, factory)

    async def subprocess_exec(self, *_: object, **__: object) -> NoReturn:
        """Refuse it."""
        _refuse("a subprocess")

    async def subprocess_shell(self, *_: object, **__: object) -> NoReturn:
        """Refuse it."""
        _refuse("a subprocess")

    def add_reader(self, *_: object) -> NoReturn:
        """Refuse it."""
        _refuse("a descriptor")

    def remove_reader(self, *_: object) -> bool:
        """Return False: there are none."""
        return False

    async def sock_connect(self, *_: object) -> NoReturn:
        """Refuse it."""
        _refuse("a real socket")


def _refuse(what: str) -> NoReturn:
    raise Forbidden(f"{what}: a simulation reaches nothing outside of it")


def _arguments(
    given: tuple[object, ...], options: Mapping[str, object]
) -> tuple[Callable[[], Any], object, object]:
    """Return factory, host and port of a call, however they were given."""
    values = dict(zip(_ARGUMENTS, given, strict=False))
    factory, host, port = ({**options, **values}.get(name) for name in _ARGUMENTS)
    return cast("Callable[[], Any]", factory), host, port


def _permute_tasks(turn: list[asyncio.Handle], draw: random.Random) -> None:
    """Put the steps of tasks into another order, each at the place of one of them."""
    places = [at for at, handle in enumerate(turn) if _task_of(handle) is not None]
    if len(places) < 2:
        return
    steps = [turn[at] for at in places]
    draw.shuffle(steps)
    for at, step in zip(places, steps, strict=True):
        turn[at] = step


def _task_of(handle: asyncio.Handle) -> asyncio.Task[Any] | None:
    owner = getattr(_CALLBACK(handle), "__self__", None)
    return owner if isinstance(owner, asyncio.Task) else None


def _named(handle: asyncio.Handle) -> str:
    """Return what a step runs, without addresses and numbers."""
    task = _task_of(handle)
    called: Any = task.get_coro() if task is not None else _CALLBACK(handle)
    while type(called) is functools.partial:
        called = called.func
    name = getattr(called, "__qualname__", None)
    return name if type(name) is str else type(called).__name__


def _complete(future: asyncio.Future[T], function: Callable[[], T]) -> None:
    if future.cancelled():
        return
    try:
        future.set_result(function())
    except Exception as error:  # noqa: BLE001 - whoever waits for it gets it
        future.set_exception(error)


def _text(host: object) -> str:
    return host.decode() if isinstance(host, bytes) else str(host)
