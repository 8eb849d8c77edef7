"""Logs of simulated processes: lines of the trace, which are written out only where they are read."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, cast

import structlog
from structlog.typing import FilteringBoundLogger

from ctrlruntime.envtest.simulation.loop import SimLoop
from ctrlruntime.envtest.simulation.process import current
from ctrlruntime.manager.logs import name_objects, redact

Event = MutableMapping[str, Any]
_UNREAD: Final = frozenset({"level", "event", "reconcileID", "controllerGroup", "controllerKind"})
"""Fields that are left out, or stand at the beginning."""
_WRAPPER: Final = structlog.make_filtering_bound_logger(logging.INFO)


@dataclass(frozen=True, slots=True)
class _Entry:
    """A message with its fields."""

    fields: Event

    def __str__(self) -> str:
        fields = structlog.processors.format_exc_info(None, "", {**self.fields})
        fields = redact(None, "", name_objects(None, "", fields))
        shown = (f"{key}={value}" for key, value in fields.items() if key not in _UNREAD)
        return " ".join([f"# {fields['level']}: {fields['event']}", *shown])


def _keep(_logger: object, _method: str, event: Event) -> NoReturn:
    """Make an entry a line of the trace of the loop that runs, if it is one of a simulation."""
    loop = asyncio._get_running_loop()
    if isinstance(loop, SimLoop):
        process = current()
        if event.get("exc_info") is True:
            event["exc_info"] = sys.exc_info()
        name = process.root.name if process is not None else ""
        loop.trace.keep_line(loop.time(), name, _Entry(event))
    raise structlog.DropEvent


_PROCESSORS: Final[list[Any]] = [
    structlog.contextvars.merge_contextvars,
    structlog.processors.add_log_level,
    _keep,
]


def logger() -> FilteringBoundLogger:
    """Return a logger for whatever process runs."""
    made = structlog.wrap_logger(None, processors=_PROCESSORS, wrapper_class=_WRAPPER)
    return cast("FilteringBoundLogger", made)


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """Keep what modules log as well, whose loggers are structlog's own, within the block."""
    configured, before = structlog.is_configured(), structlog.get_config()
    structlog.configure(
        processors=_PROCESSORS, wrapper_class=_WRAPPER, cache_logger_on_first_use=False
    )
    try:
        yield
    finally:
        structlog.reset_defaults()
        if configured:
            structlog.configure(**before)
