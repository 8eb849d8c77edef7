"""A file of settings that is read again when it changes, in every manager, leading or not."""

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
from prometheus_client import Gauge
from structlog.typing import FilteringBoundLogger

from ctrlruntime.manager import Group
from internal.cloud.tasks.settings import SettingsError

LARGEST: Final = 1 << 20
"""Bytes of a file that is read: as much as a ConfigMap holds."""

_log: FilteringBoundLogger = structlog.get_logger("cloud.watched_file")


def read_text(path: Path) -> str:
    """Return the text of a file. Raises SettingsError for one that cannot be read or is too large."""
    try:
        with path.open("rb") as file:
            found = file.read(LARGEST + 1)
        if len(found) > LARGEST:
            raise SettingsError(f"it is larger than {LARGEST} bytes")
        return found.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(str(error)) from error


@dataclass(slots=True)
class WatchedFile:
    """Uses a file at the start and whenever its content changes.

    A file that cannot be used changes nothing: what was read before stays, the log names the value,
    and the gauge is 0 until a usable file is read.
    """

    runnable_group = Group.OTHERS

    path: Path
    subject: str
    """What it holds, for the log, such as `Task settings`."""
    use: Callable[[], list[str]]
    """Read the file and put it to use; returns the names that changed. Raises SettingsError."""
    changed: Callable[[list[str]], None]
    """Called with the names that changed, so that their objects are reconciled."""
    valid: Gauge
    period: float
    """Seconds between two looks at the file."""
    on_hangup: bool = False
    """Whether SIGHUP has it read at once. One file of a process may have that."""

    async def start(self) -> None:
        """Run until cancelled."""
        self.valid.set(1)
        loop, hangup = asyncio.get_running_loop(), asyncio.Event()
        if self.on_hangup:
            loop.add_signal_handler(signal.SIGHUP, hangup.set)
        seen = None  # it may have changed since the command read it
        try:
            while True:
                signalled = await self._wait(hangup)
                now = await asyncio.to_thread(self._content)
                if signalled or now != seen:
                    seen = now
                    self.valid.set(self._reload())
        finally:
            if self.on_hangup:
                loop.remove_signal_handler(signal.SIGHUP)

    async def _wait(self, hangup: asyncio.Event) -> bool:
        """Wait for the signal, one period at most. Returns whether it came."""
        try:
            async with asyncio.timeout(self.period):
                await hangup.wait()
        except TimeoutError:
            return False
        hangup.clear()
        return True

    def _content(self) -> str:
        try:
            return read_text(self.path)
        except SettingsError as error:
            return f"unreadable: {error}"

    def _reload(self) -> bool:
        try:
            changed = self.use()
        except SettingsError as error:
            _log.error(
                f"{self.subject} refused, the earlier ones stay in use",
                file=str(self.path),
                problem=str(error),
            )
            return False
        _log.info(f"{self.subject} in use", file=str(self.path), changed=changed)
        self.changed(changed)
        return True
