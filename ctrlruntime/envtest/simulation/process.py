"""Processes that are simulated: everything that runs in the contexts of one belongs to it."""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Callable
from typing import Final

CURRENT: Final[contextvars.ContextVar[Process | None]] = contextvars.ContextVar(
    "simulated_process", default=None
)
"""The process of a context; None: what is outside of them all, as the API server and the test."""

Handle = asyncio.Handle


class Process:
    """One life of a program. A restart makes another one.

    What of it is ready to run is kept here while it is paused, and for ever once it is killed: if its
    tasks were collected, their ``finally`` would run, which SIGKILL does not allow.
    """

    def __init__(self, name: str, parent: Process | None = None) -> None:
        self.name = name
        self.parent = parent
        self.children: list[Process] = []
        self.dead = False
        self.paused = False
        self.identity = name
        """By which it takes part in an election."""
        self.led = False
        """Whether it has held the lease."""
        self.steps_left: int | None = None
        """Steps until it is killed; None: no end is planned."""
        self.on_death: list[Callable[[], None]] = []
        self._held: deque[Handle] = deque()
        if parent is not None:
            parent.children.append(self)

    def __repr__(self) -> str:
        return f"Process({self.name!r})"

    def context(self) -> contextvars.Context:
        """Return a new context that belongs to it."""
        context = contextvars.copy_context()
        context.run(CURRENT.set, self)
        return context

    @property
    def root(self) -> Process:
        """The process itself, or the one that it is a child of."""
        return self if self.parent is None else self.parent.root

    def holds(self, handle: Handle) -> bool:
        """Whether a step may not run now; it is kept then."""
        if self.steps_left is not None and not self.dead:
            self.steps_left -= 1
            if self.steps_left < 0:
                self.root.kill()
        if not (self.dead or self.paused):
            return False
        self._held.append(handle)
        return True

    def pause(self, *, children: bool = True) -> None:
        """Let nothing of it run, as SIGSTOP does, or (without ``children``) a main loop that is stuck."""
        self.paused = True
        if children:
            for child in self.children:
                child.pause()

    def resume(self) -> list[Handle]:
        """Return what became ready to run in the meantime, of its children as well."""
        self.paused = False
        handles: list[Handle] = []
        if not self.dead:
            handles += self._held
            self._held.clear()
        for child in self.children:
            handles += child.resume()
        return handles

    def kill(self) -> None:
        """End it as SIGKILL does: no step of it runs any more, no clean-up either."""
        if self.dead:
            return
        self.dead = True
        for child in self.children:
            child.kill()
        for called in self.on_death:
            called()


def current() -> Process | None:
    """Return the process that this runs in."""
    return CURRENT.get()
