"""A server's process that belongs to this process, and to no event loop."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from ctrlruntime.envtest.process import die_with


class ServerProcess:
    """A child process with a log, killed by the kernel when this process ends.

    The kernel ties a child to the thread that forked it, so a thread of its own forks it and lives as
    long as it does. It may be started on one event loop, or none, and stopped on another.
    """

    def __init__(self, command: Sequence[str], *, log: Path) -> None:
        self.command = tuple(command)
        self.log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._error: OSError | None = None
        self._begun = threading.Event()
        self._gone = threading.Event()

    def start(self) -> None:
        """Raises OSError where the program cannot be run."""
        name = f"keeper of {Path(self.command[0]).name}"
        threading.Thread(target=self._keep, name=name, daemon=True).start()
        self._begun.wait()
        if self._error is not None:
            raise self._error

    def _keep(self) -> None:
        try:
            with self.log.open("ab") as output:
                process = subprocess.Popen(  # noqa: S603
                    self.command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=die_with(os.getpid()),
                )
        except OSError as error:
            self._error = error
            self._gone.set()
            self._begun.set()
            return
        self._process = process
        self._begun.set()
        process.wait()
        self._gone.set()

    @property
    def running(self) -> bool:
        return self._process is not None and not self._gone.is_set()

    @property
    def pid(self) -> int:
        """Raises RuntimeError before `start`."""
        if self._process is None:
            raise RuntimeError(f"{self.command[0]} was not started")
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return None if self._process is None else self._process.returncode

    def signal(self, number: signal.Signals) -> None:
        """Nothing happens where it has ended."""
        if self._process is not None and self.running:
            self._process.send_signal(number)

    async def wait(self, timeout: float) -> bool:
        """Whether it ended within `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while self.running and time.monotonic() < deadline:  # noqa: ASYNC110 - no loop is its own
            await asyncio.sleep(0.02)
        return not self.running

    async def stop(self, grace: float) -> None:
        """SIGTERM, and SIGKILL after `grace` seconds; returns when the process is gone."""
        self.signal(signal.SIGTERM)
        if not await self.wait(grace):
            await self.kill()

    async def kill(self) -> None:
        """SIGKILL; returns when the process is gone."""
        self.signal(signal.SIGKILL)
        await self.wait(30)

    def log_tail(self, lines: int = 20) -> str:
        """The last lines of the log, for messages."""
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
