"""Names the test that leaves a child process behind; Python reports it later, in the name of another test."""

from __future__ import annotations

import asyncio
import functools
from asyncio import base_subprocess
from collections.abc import Generator
from typing import Any
from weakref import WeakKeyDictionary

import pytest


class ChildProcesses:
    """The transports of child processes, by their event loop. A plugin of pytest."""

    def __init__(self) -> None:
        self._loops: WeakKeyDictionary[Any, asyncio.AbstractEventLoop] = WeakKeyDictionary()

    def watch(self) -> None:
        """Record each transport that is made from now on."""
        transports: Any = base_subprocess.BaseSubprocessTransport
        made = transports.__init__

        @functools.wraps(made)
        def recorded(
            transport: object, loop: asyncio.AbstractEventLoop, *args: object, **kw: object
        ) -> None:
            self._loops[transport] = loop
            made(transport, loop, *args, **kw)

        transports.__init__ = recorded

    def left(self) -> list[str]:
        """Return those that are open although their event loop is closed, each of them once."""
        found = [
            transport
            for transport, loop in list(self._loops.items())
            if loop.is_closed() and not transport.is_closing()
        ]
        for transport in found:
            del self._loops[transport]
        return [repr(transport) for transport in found]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self) -> Generator[None, None, None]:
        """Fail a test whose event loop was closed before its child processes were over."""
        yield
        left = self.left()
        if left:
            pytest.fail(f"child processes outlive their event loop: {', '.join(left)}")
