"""The file with the types of infrastructure: read at the start, and when it changes."""

from collections.abc import Callable, Iterable
from pathlib import Path

from prometheus_client import CollectorRegistry, Gauge
from pydantic import ValidationError

from ctrlruntime.cache.entry import Entry
from ctrlruntime.queue import Request
from internal.cloud.terraform_types import TerraformTypes, parse_types
from manager.controllers.watched_file import WatchedFile, read_text


def read_types(path: Path | None) -> TerraformTypes:
    """Return the types of a file; without one there are none. Raises SettingsError."""
    return TerraformTypes(None if path is None else parse_types(read_text(path)))


def types_gauge(registry: CollectorRegistry) -> Gauge:
    """Make the metric of the file, which the alert CloudTerraformTypesRefused reads."""
    return Gauge(
        "cloud_terraform_types_valid",
        "1 if the types of infrastructure that were read last are in use, 0 if they were refused.",
        registry=registry,
    )


def types_file(
    path: Path,
    types: TerraformTypes,
    instances: Iterable[Entry],
    enqueue: Callable[[Request], None],
    registry: CollectorRegistry,
    period: float,
) -> WatchedFile:
    """Return what keeps the types as in the file, and queues the instances of a type that changed.

    `period`: seconds between two looks at the file.
    """

    def changed(names: list[str]) -> None:
        for entry in instances:
            if type_of(entry) in names:
                enqueue(Request(entry.name, namespace=entry.namespace))

    return WatchedFile(
        path,
        "Terraform types",
        use=lambda: types.apply(parse_types(read_text(path))),
        changed=changed,
        valid=types_gauge(registry),
        period=period,
    )


def type_of(entry: Entry) -> str | None:
    """Return the type that an instance names; None also for one that cannot be read."""
    try:
        infrastructure = (entry.field("spec") or {}).get("infrastructure") or {}
    except ValidationError:
        return None
    found = (infrastructure.get("terraform") or {}).get("type")
    return found if isinstance(found, str) else None
