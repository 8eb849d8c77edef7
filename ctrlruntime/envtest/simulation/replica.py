"""A program that is started again whenever it ends, as a kubelet does."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextvars import Context

from ctrlruntime.envtest.simulation.loop import SimLoop
from ctrlruntime.envtest.simulation.process import Process
from ctrlruntime.envtest.simulation.trace import Trace

Main = Callable[["Replica"], Awaitable[None]]
_RESTART: tuple[float, float] = (0.5, 10.0)


class Replica:
    """One of the processes under test. ``main`` is run once a life, in a process of its own."""

    def __init__(
        self, name: str, main: Main, loop: SimLoop, trace: Trace, delays: random.Random
    ) -> None:
        """``delays``: draws of the seconds until it is started again."""
        self.name = name
        self.life = 0
        self.process = Process(name)
        self.lease = ""
        """Namespace and name of the lease it competes for; empty if it competes for none."""
        self.ended: Callable[[Replica, str], None] = lambda _replica, _error: None
        """Called when a life ends that was not killed."""
        self.disturbed = False
        """Whether it was ever killed or paused."""
        self.elected = False
        """Whether this life holds the lease, as the API server has it."""
        self.lives: list[Process] = []
        """All of them, kept: what is left of a dead one must not be collected."""
        self._main = main
        self._loop = loop
        self._trace = trace
        self._delays = delays
        self._restart: asyncio.TimerHandle | None = None

    @property
    def identity(self) -> str:
        """The name of this life: each has its own, as a Pod has."""
        return f"{self.name}.{self.life}"

    def start(self) -> None:
        """Begin a life."""
        if self._restart is not None:
            self._restart.cancel()
            self._restart = None
        self.life += 1
        self.elected = False
        process = self.process = Process(self.name)
        process.identity = self.identity
        self.lives.append(process)
        process.on_death.append(self._died)
        self._note(f"starts, life {self.life}")
        self._loop.create_task(self._live(process), name=self.identity, context=process.context())

    def kill(self) -> None:
        """End this life as SIGKILL does; the next one begins some seconds later."""
        self.disturbed = True
        self.process.kill()

    def end(self) -> None:
        """Kill it for good."""
        self.kill()
        if self._restart is not None:
            self._restart.cancel()
            self._restart = None

    def restart_now(self) -> None:
        """Kill it, and begin the next life at once."""
        self.kill()
        self.start()

    def pause(self, seconds: float, *, main_only: bool = False) -> None:
        """Let it stand still; with ``main_only`` its election goes on."""
        self.disturbed = True
        process = self.process
        process.pause(children=not main_only)
        self._loop.call_later(seconds, lambda: self._loop.wake(process.resume()))

    def resume(self) -> None:
        """Let it go on."""
        self._loop.wake(self.process.resume())

    async def _live(self, process: Process) -> None:
        try:
            await self._main(self)
            error = "without an error"
        except Exception as raised:  # noqa: BLE001 - a program may end with any; it is started again
            error = repr(raised)
        self._note(f"ends: {error}")
        process.kill()
        self.ended(self, error)

    def _died(self) -> None:
        self._note("is gone")
        low, high = _RESTART
        outside = Context()  # a timer of the process itself would never fire again
        delay = self._delays.uniform(low, high)
        self._restart = self._loop.call_later(delay, self.start, context=outside)

    def _note(self, what: str) -> None:
        self._trace.note(self._loop.time(), self.name, f"* {what}")
