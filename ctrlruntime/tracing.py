"""OpenTelemetry spans from the event that was seen to the write it led to, in one trace.

An event handler runs in a span. The reconcile it causes continues that trace: the time in the queue
is a span below the event, the reconcile one below the wait, its requests are below the reconcile. Of
several events that lead to one reconcile, the first is continued and the others are linked.

OpenTelemetry's API is imported by the first :class:`Tracing` that has a provider. Without one a method
costs one comparison.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from ctrlruntime.clock import wall

if TYPE_CHECKING:
    from opentelemetry.trace import Span, SpanContext, Tracer, TracerProvider

Attributes = Mapping[str, str | int | float | bool]

_API: Final = "opentelemetry.trace"
_TRACEPARENT: Final = "traceparent"


@dataclass(frozen=True, slots=True)
class Cause:
    """A span that led to a queued item, and when it did, in nanoseconds of the epoch."""

    span: SpanContext
    since: int


class Tracing:
    """Starts the spans of one manager.

    ``provider`` defaults to the process's global provider; tracing is off if there is none when the
    manager is made.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        if provider is None:
            provider = _installed()
        self._tracer: Tracer | None = (
            None if provider is None else provider.get_tracer("ctrlruntime")
        )

    @property
    def enabled(self) -> bool:
        return self._tracer is not None

    @contextmanager
    def event(self, name: str, attributes: Attributes) -> Iterator[Cause | None]:
        """Yield the span of an event being handled, and with it the cause to keep with what it enqueues."""
        if self._tracer is None:
            yield None
            return
        from opentelemetry.context import Context
        from opentelemetry.trace import SpanKind

        with self._tracer.start_as_current_span(
            name, context=Context(), kind=SpanKind.CONSUMER, attributes=attributes
        ):
            yield self.cause()

    def cause(self) -> Cause | None:
        """Return the current span as the cause of what is enqueued now; None without one."""
        if self._tracer is None:
            return None
        from opentelemetry import trace

        span = trace.get_current_span().get_span_context()
        return Cause(span, int(wall() * 1e9)) if span.is_valid else None

    @contextmanager
    def reconcile(
        self, name: str, causes: Sequence[Any], attributes: Attributes
    ) -> Iterator[Span | None]:
        """Yield the span of one reconcile: it continues the trace of its first cause and links the others."""
        if self._tracer is None:
            yield None
            return
        from opentelemetry import trace
        from opentelemetry.context import Context

        found = [each for each in causes if isinstance(each, Cause)]
        parent = Context()
        if found:
            parent = trace.set_span_in_context(trace.NonRecordingSpan(found[0].span), parent)
            wait = self._tracer.start_span(
                "queue wait", parent, attributes=attributes, start_time=found[0].since
            )
            wait.end()
            parent = trace.set_span_in_context(wait, parent)
        with self._tracer.start_as_current_span(
            name,
            context=parent,
            links=[trace.Link(each.span) for each in found[1:]],
            attributes=attributes,
        ) as span:
            yield span

    @contextmanager
    def request(self, name: str, attributes: Attributes) -> Iterator[Span | None]:
        """Yield the span of one request to an API server, a child of whatever runs now."""
        if self._tracer is None:
            yield None
            return
        from opentelemetry.trace import SpanKind

        with self._tracer.start_as_current_span(
            name, kind=SpanKind.CLIENT, attributes=attributes
        ) as span:
            yield span

    def carrier(self) -> str:
        """Return the current span as W3C ``traceparent``, for work that goes on elsewhere; empty without one."""
        if self._tracer is None:
            return ""
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        given: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(given)
        return given.get(_TRACEPARENT, "")

    def elapsed(
        self,
        name: str,
        carrier: str,
        since: datetime,
        until: datetime,
        attributes: Attributes,
        *,
        error: str = "",
    ) -> None:
        """Record the span of work that was done elsewhere, reported when it has ended: a child of ``carrier``, linked to the current span."""
        if self._tracer is None:
            return
        from opentelemetry import trace
        from opentelemetry.context import Context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        here = trace.get_current_span().get_span_context()
        span = self._tracer.start_span(
            name,
            context=TraceContextTextMapPropagator().extract(
                {_TRACEPARENT: carrier}, context=Context()
            ),
            links=[trace.Link(here)] if here.is_valid else [],
            attributes=attributes,
            start_time=_nanoseconds(since),
        )
        if error:
            span.set_status(trace.Status(trace.StatusCode.ERROR, error))
        span.end(_nanoseconds(until))

    @staticmethod
    def failed(span: Span | None, error: BaseException) -> None:
        """Mark ``span`` as failed with ``error``."""
        if span is None:
            return
        from opentelemetry.trace import Status, StatusCode

        span.record_exception(error)
        span.set_status(Status(StatusCode.ERROR, str(error)))


def _installed() -> TracerProvider | None:
    """Return the process's global provider. Whoever set one has imported the API."""
    if _API not in sys.modules:
        return None
    from opentelemetry import trace

    provider = trace.get_tracer_provider()
    unset = isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider)
    return None if unset else provider


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1e9)
