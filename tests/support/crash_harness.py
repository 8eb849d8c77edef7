"""Lives of a manager, a real process: calm ones, and ones that end by SIGKILL at a write."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ctrlruntime.envtest.process import ChildProcess
from ctrlruntime.envtest.proxy import Kill, Match, Proxy

Holds = Callable[[], Awaitable[bool]]
MOST_LIVES = 150
TURN = 0.05
"""Seconds between two looks."""


@dataclass
class CrashHarness:
    """Managers that follow one another. `start` starts one; `shown` describes the state for the error of a run that is not done."""

    proxy: Proxy
    start: Callable[[], Awaitable[ChildProcess]]
    shown: Callable[[], Awaitable[str]]
    writes: Match
    """The writes that a manager dies at."""
    user: str = "manager"
    quiet: float = 1.0
    """Seconds: a manager that asks for nothing for so long, with all as it should be, has nothing left to write."""
    patience: float = 180.0
    """Seconds that one life may take."""
    kills: int = 0
    others: Sequence[Proxy] = ()
    """Of further servers: a manager dies at its first write to any of them."""

    @property
    def proxies(self) -> tuple[Proxy, ...]:
        """Those of all servers that it talks to."""
        return (self.proxy, *self.others)

    async def calm(self, holds: Holds) -> None:
        """A manager that nobody kills, until all is as it should be."""
        before = self._requests()
        process = await self.start()
        try:
            await self._until(process, holds, before)
        finally:
            await process.stop()

    async def crash_until(self, holds: Holds, *, first: str) -> None:
        """Managers that die at their first write, in turns before it reaches the server and after it is committed."""
        order = ("before", "after") if first == "before" else ("after", "before")
        for life in range(MOST_LIVES):
            if not await self._short(holds, order[life % 2]):
                return
            self.kills += 1
        raise AssertionError(f"not done after {MOST_LIVES} lives: {await self.shown()}")

    async def _short(self, holds: Holds, when: str) -> bool:
        """True if it was killed; False if all was done and it had nothing to write."""
        before = self._requests()
        process = await self.start()
        killed = asyncio.Event()
        kill = Kill(pid=process.pid, when="before" if when == "before" else "after")
        rules = [
            (proxy, proxy.add(kill, self.writes, notify=lambda *_: killed.set()))
            for proxy in self.proxies
        ]
        try:
            await self._until(process, holds, before, killed)
            if not killed.is_set():
                return False
            assert await process.wait() == -9
            return True
        finally:
            for proxy, rule in rules:
                proxy.remove(rule)
            await process.stop(grace=0)

    def _requests(self) -> int:
        """How many all managers have sent."""
        return sum(each.log.counts().select(user=self.user).total for each in self.proxies)

    async def _until(
        self,
        process: ChildProcess,
        holds: Holds,
        before: int,
        killed: asyncio.Event | None = None,
    ) -> None:
        """Until it is killed, or all holds and it has asked for nothing for a while, after it has asked for something.

        `before`: how many requests there were before it began.
        """
        loop = asyncio.get_running_loop()
        end, quiet, asked = loop.time() + self.patience, 0, -1
        while killed is None or not killed.is_set():
            assert loop.time() < end, f"{await self.shown()}\n{process.log_tail()}"
            seen = self._requests()
            if seen != asked or seen == before or not await holds():
                asked, quiet = seen, 0
            elif quiet * TURN > self.quiet:
                return
            quiet += (
                1  # by turns: while the machine stands still, the process writes nothing either
            )
            await asyncio.sleep(TURN)
            if killed is None or not killed.is_set():
                assert process.returncode is None, process.log_tail()
