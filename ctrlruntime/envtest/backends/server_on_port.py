"""A server that comes back on the port it had."""

from __future__ import annotations

from pathlib import Path

from ctrlruntime.envtest.backends.launch import Check, Command, launch, launch_on
from ctrlruntime.envtest.backends.ports import LOOPBACK
from ctrlruntime.envtest.process import ChildProcess


class ServerOnPort:
    """One server's process, over several lives.

    It starts on a free port, or on `first_port` where that is free, and keeps the port it got.
    `timeout` (seconds) is for becoming ready, `grace` for ending by itself.
    """

    def __init__(
        self,
        name: str,
        command: Command,
        check: Check,
        *,
        log: Path,
        timeout: float,
        grace: float,
        first_port: int | None = None,
    ) -> None:
        self.name = name
        self.port = 0
        """0 before the first start."""
        self.process: ChildProcess | None = None
        """None before the first start and after `stop`; one that was killed is still reported."""
        self._command = command
        self._check = check
        self._log = log
        self._timeout = timeout
        self._grace = grace
        self._first_port = first_port

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{LOOPBACK}:{self.port}"

    async def start(self) -> None:
        """Return once it answers. Raises ProcessFailed with the end of its log."""
        name, command, check = self.name, self._command, self._check
        log, timeout = self._log, self._timeout
        if self.port:
            self.process = await launch_on(
                name, self.port, command, check, log=log, timeout=timeout
            )
        else:
            self.process, self.port = await launch(
                name, command, check, log=log, timeout=timeout, first_port=self._first_port
            )

    async def stop(self) -> None:
        """SIGTERM, and SIGKILL after `grace`; may be called twice."""
        if self.process is not None:
            await self.process.stop(grace=self._grace)
            self.process = None

    async def kill(self) -> None:
        """SIGKILL; `restart` brings it back."""
        if self.process is not None:
            await self.process.stop(grace=0)

    async def restart(self) -> None:
        """Stop it if it runs, and start it with the same port."""
        if self.process is not None:
            await self.process.stop(grace=self._grace)
        await self.start()
