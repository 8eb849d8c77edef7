"""Structured logs: JSON for machines, a console for people, never secrets."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, MutableMapping
from typing import Any, Literal, TextIO, cast

import orjson
import structlog
from structlog.typing import FilteringBoundLogger

from ctrlruntime.queue import Request
from ctrlruntime.queue.request import ObjectKey

REDACTED = "<redacted>"
_SECRET_KEYS = frozenset(
    {"authorization", "data", "stringdata", "password", "token", "secret", "client_key"}
)
_REFERENCE_KEYS = frozenset({"apiVersion", "kind", "namespace", "name", "uid"})


def make_logger(
    *,
    format: Literal["json", "console"] = "json",  # noqa: A002 - the word users know
    level: str = "info",
    stream: TextIO | None = None,
) -> FilteringBoundLogger:
    """Return a logger that writes to ``stream`` (standard error by default), one line per message.

    Nothing global is touched; :func:`configure` does that for a program.
    """
    output = stream if stream is not None else sys.stderr
    return cast(
        "FilteringBoundLogger",
        structlog.wrap_logger(
            structlog.PrintLogger(output),
            processors=_processors(format, output),
            wrapper_class=structlog.make_filtering_bound_logger(_level(level)),
            cache_logger_on_first_use=True,
        ),
    )


def default_logger() -> FilteringBoundLogger:
    """Return structlog's own logger where the program configured it, else one that writes JSON."""
    if structlog.is_configured():
        configured: FilteringBoundLogger = structlog.get_logger()
        return configured
    return make_logger()


def configure(
    *,
    format: Literal["json", "console"] = "json",  # noqa: A002
    level: str = "info",
    stream: TextIO | None = None,
) -> FilteringBoundLogger:
    """Set the process-wide defaults of structlog, for a program's ``main``, and return a logger.

    Modules that log without a manager use the defaults as well.
    """
    output = stream if stream is not None else sys.stderr
    structlog.configure(
        processors=_processors(format, output),
        wrapper_class=structlog.make_filtering_bound_logger(_level(level)),
        logger_factory=structlog.PrintLoggerFactory(output),
        cache_logger_on_first_use=False,
    )
    return make_logger(format=format, level=level, stream=stream)


def redact(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Replace the data of Secrets, and values whose key names a secret, at any depth.

    Names of objects stay, whatever the key: an ObjectKey, and a reference made of kind and name.
    """
    for key, value in event.items():
        event[key] = REDACTED if _is_secret(key, value) else _redacted(value)
    return event


def name_objects(
    _logger: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Write a manifest as its reference, so that no log carries whole objects."""
    for key, value in event.items():
        if isinstance(value, Mapping) and "metadata" in value and "kind" in value:
            metadata = value["metadata"] or {}
            event[key] = {
                "apiVersion": value.get("apiVersion", ""),
                "kind": value["kind"],
                "namespace": metadata.get("namespace", ""),
                "name": metadata.get("name", ""),
            }
        elif isinstance(value, Request):
            event[key] = value.log_key()
    return event


def _is_secret(key: str, value: object) -> bool:
    return key.lower() in _SECRET_KEYS and bool(value) and not _is_name(value)


def _is_name(value: object) -> bool:
    """Whether a value names an object and holds nothing of it."""
    if isinstance(value, Mapping):
        return "kind" in value and "name" in value and _REFERENCE_KEYS.issuperset(value)
    return isinstance(value, ObjectKey | Request)


def _redacted(value: object) -> object:
    if _is_name(value):
        return value
    if isinstance(value, Mapping):
        if value.get("kind") == "Secret":
            kept = ("apiVersion", "kind", "type")
            return {
                key: inner
                if key in kept
                else _redacted_metadata(inner)
                if key == "metadata"
                else REDACTED
                for key, inner in value.items()
            }
        return {
            key: REDACTED if _is_secret(str(key), inner) and key != "data" else _redacted(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return [_redacted(inner) for inner in value]
    return value


def _redacted_metadata(metadata: object) -> object:
    if not isinstance(metadata, Mapping):
        return REDACTED
    return {key: metadata[key] for key in ("namespace", "name", "uid") if key in metadata}


def _processors(format: Literal["json", "console"], output: TextIO) -> list[Any]:  # noqa: A002
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        name_objects,
        redact,
    ]
    if format == "console":
        # structlog's own choice shows the values of all local variables, secrets among them.
        renderer = structlog.dev.ConsoleRenderer(
            colors=output.isatty(),
            timestamp_key="ts",
            exception_formatter=structlog.dev.plain_traceback,
        )
        return [*shared, renderer]
    return [
        *shared,
        structlog.processors.format_exc_info,
        structlog.processors.EventRenamer("msg"),
        structlog.processors.JSONRenderer(serializer=_dumps),
    ]


def _dumps(value: object, **_options: object) -> str:
    return orjson.dumps(value, default=repr, option=orjson.OPT_NON_STR_KEYS).decode()


def _level(name: str) -> int:
    levels = logging.getLevelNamesMapping()
    if name.upper() not in levels:
        raise ValueError(f"log level {name!r} is not one of debug, info, warning, error")
    return levels[name.upper()]
