"""The file with the settings of tasks: read at the start, on SIGHUP, and when it changes."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge

from ctrlruntime.manager import Group
from internal.cloud.tasks.settings import LiveDefinitions, parse_settings
from manager.controllers.watched_file import WatchedFile, read_text


def read_settings(path: Path, definitions: LiveDefinitions) -> list[str]:
    """Read the file and apply it. Returns the tasks that changed. Raises SettingsError."""
    return definitions.apply(parse_settings(read_text(path), definitions.tasks))


def valid_gauge(registry: CollectorRegistry) -> Gauge:
    """Make the metric of the file, which the alert CloudTaskSettingsRefused reads."""
    return Gauge(
        "cloud_task_settings_valid",
        "1 if the settings of tasks that were read last are in use, 0 if they were refused.",
        registry=registry,
    )


@dataclass(slots=True)
class SettingsFile:
    """Keeps the definitions of tasks as in the file."""

    runnable_group = Group.OTHERS

    path: Path
    definitions: LiveDefinitions
    changed: Callable[[list[str]], None]
    """Called with the tasks that changed, so that their objects are reconciled."""
    registry: CollectorRegistry
    period: float
    """Seconds between two looks at the file."""

    async def start(self) -> None:
        """Run until cancelled."""
        file = WatchedFile(
            self.path,
            "Task settings",
            use=lambda: read_settings(self.path, self.definitions),
            changed=self.changed,
            valid=valid_gauge(self.registry),
            on_hangup=True,
            period=self.period,
        )
        await file.start()
