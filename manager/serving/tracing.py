"""Traces of the manager by OTLP, as OpenTelemetry's standard environment variables say.

Nothing of OpenTelemetry is imported unless they turn traces on.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import click
from structlog.typing import FilteringBoundLogger

from ctrlruntime.clock import monotonic

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

SERVICE_NAME = "ctrlruntime-manager"
"""The service's name unless OTEL_SERVICE_NAME or OTEL_RESOURCE_ATTRIBUTES has one."""
FLUSH_SECONDS = 5.0
"""How long the end of the program waits for the last spans to be exported."""
REPEAT_SECONDS = 300.0
"""How often a failing export is logged."""
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def exports_traces(environment: Mapping[str, str]) -> bool:
    """Whether the variables turn traces on. Raises ClickException for what is not supported.

    Off unless an OTLP endpoint or OTEL_TRACES_EXPORTER=otlp is set: a manager without a collector
    does not look for one at localhost.
    """
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    default = "otlp" if any(environment.get(name) for name in _ENDPOINTS) else "none"
    exporter = environment.get("OTEL_TRACES_EXPORTER", "").strip() or default
    if exporter not in ("otlp", "none"):
        raise click.ClickException(
            f"OTEL_TRACES_EXPORTER={exporter} is not supported; set it to otlp or none"
        )
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), "")
    if exporter == "otlp" and protocol not in ("", "http/protobuf"):
        raise click.ClickException(
            f"the OTLP protocol {protocol} is not supported; set OTEL_EXPORTER_OTLP_PROTOCOL to "
            "http/protobuf and the endpoint to the collector's HTTP port, 4318 by default"
        )
    return exporter == "otlp"


@asynccontextmanager
async def exported_traces(
    environment: Mapping[str, str], logger: FilteringBoundLogger
) -> AsyncIterator[TracerProvider | None]:
    """Yield the provider for the manager's spans, None if traces are off. Flushes at the end."""
    if not exports_traces(environment):
        yield None
        return
    handler = _ExportErrors(logger, monotonic)
    sdk = logging.getLogger("opentelemetry")
    sdk.addHandler(handler)
    sdk.propagate = False
    provider = _provider(environment)
    try:
        yield provider
    finally:
        await _shut_down(provider)
        sdk.removeHandler(handler)


def _provider(environment: Mapping[str, str]) -> TracerProvider:
    """Spans are exported in batches by a thread; it drops what a slow collector does not take."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = "service.name=" in environment.get("OTEL_RESOURCE_ATTRIBUTES", "")
    given = named or bool(environment.get("OTEL_SERVICE_NAME"))
    resource = Resource.create({} if given else {"service.name": SERVICE_NAME})
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


async def _shut_down(provider: TracerProvider) -> None:
    """Export what is left, for a bounded time.

    On a daemon thread: neither the event loop nor the end of the process waits for a collector that
    does not answer.
    """
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def flush() -> None:
        provider.shutdown()
        with suppress(RuntimeError):  # the loop has ended: nothing waits any more
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=flush, name="flush-traces", daemon=True).start()
    try:
        async with asyncio.timeout(FLUSH_SECONDS):
            await done.wait()
    except TimeoutError:
        return


class _ExportErrors(logging.Handler):
    """Logs what the SDK reports, at most once in a while: an export is tried every few seconds."""

    def __init__(self, logger: FilteringBoundLogger, clock: Callable[[], float]) -> None:
        super().__init__(logging.WARNING)
        self._logger = logger
        self._clock = clock
        self._next = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        now = self._clock()
        if now < self._next:
            return
        self._next = now + REPEAT_SECONDS
        self._logger.warning("Traces are not exported", error=record.getMessage())
