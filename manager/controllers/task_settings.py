"""The file with the settings of tasks: read at the start, on SIGHUP, and when it changes."""

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Gauge
from structlog.typing import FilteringBoundLogger

from ctrlruntime.manager import Group
from internal.cloud.tasks.settings import LiveDefinitions, SettingsError, parse_settings

LARGEST: Final = 1 << 20
"""Bytes of a file that is read: as much as a ConfigMap holds."""
PERIOD: Final = 5.0
"""Seconds between two looks at the file: a mounted ConfigMap changes without a signal."""

_log: FilteringBoundLogger = structlog.get_logger("cloud.task_settings")


def read_settings(path: Path, definitions: LiveDefinitions) -> list[str]:
    """Read the file and apply it. Returns the tasks that changed. Raises SettingsError."""
    return definitions.apply(parse_settings(_read(path), definitions.tasks))


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            found = file.read(LARGEST + 1)
        if len(found) > LARGEST:
            raise SettingsError(f"it is larger than {LARGEST} bytes")
        return found.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(str(error)) from error


def valid_gauge(registry: CollectorRegistry) -> Gauge:
    """Make the metric of the file, which the alert CloudTaskSettingsRefused reads."""
    return Gauge(
        "cloud_task_settings_valid",
        "1 if the settings of tasks that were read last are in use, 0 if they were refused.",
        registry=registry,
    )


@dataclass(slots=True)
class SettingsFile:
    """Keeps the definitions of tasks as in the file, in every manager, leading or not.

    A file that cannot be used changes nothing: the settings before it stay, the log names the value,
    and the gauge `cloud_task_settings_valid` is 0 until a usable file is read.
    """

    runnable_group = Group.OTHERS

    path: Path
    definitions: LiveDefinitions
    changed: Callable[[list[str]], None]
    """Called with the tasks that changed, so that their objects are reconciled."""
    registry: CollectorRegistry
    period: float = PERIOD

    async def start(self) -> None:
        """Run until cancelled."""
        valid = valid_gauge(self.registry)
        valid.set(1)
        loop, hangup = asyncio.get_running_loop(), asyncio.Event()
        loop.add_signal_handler(signal.SIGHUP, hangup.set)
        seen = None  # it may have changed since the command read it
        try:
            while True:
                signalled = await self._wait(hangup)
                now = await asyncio.to_thread(self._content)
                if signalled or now != seen:
                    seen = now
                    valid.set(self._reload())
        finally:
            loop.remove_signal_handler(signal.SIGHUP)

    async def _wait(self, hangup: asyncio.Event) -> bool:
        """Wait for the signal, one period at most. Returns whether it came."""
        try:
            await asyncio.wait_for(hangup.wait(), self.period)
        except TimeoutError:
            return False
        hangup.clear()
        return True

    def _content(self) -> str:
        try:
            return _read(self.path)
        except SettingsError as error:
            return f"unreadable: {error}"

    def _reload(self) -> bool:
        try:
            changed = read_settings(self.path, self.definitions)
        except SettingsError as error:
            _log.error(
                "Task settings refused, the earlier ones stay in use",
                file=str(self.path),
                problem=str(error),
            )
            return False
        _log.info("Task settings in use", file=str(self.path), changed=changed)
        self.changed(changed)
        return True
