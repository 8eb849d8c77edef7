"""OpenTelemetry spans from the event that was seen to the write it led to.

An event handler runs in a span of its own. The reconcile it causes is a later, separate trace that
*links* to the events behind it, since many events may lead to one run. Requests made in the run are
its children: the current span travels in a context variable, so nothing has to be passed along.

Only the OpenTelemetry API is used. Without a provider every method costs one comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

Attributes = Mapping[str, str | int | float | bool]

_PROPAGATOR: Final = TraceContextTextMapPropagator()
_TRACEPARENT: Final = "traceparent"


class Tracing:
    """Starts the spans of one manager.

    ``provider`` defaults to the process's global provider; tracing is off if there is none when the
    manager is made.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        if provider is None:
            installed = trace.get_tracer_provider()
            if not isinstance(installed, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
                provider = installed
        self._tracer: Tracer | None = (
            None if provider is None else provider.get_tracer("ctrlruntime")
        )

    @property
    def enabled(self) -> bool:
        return self._tracer is not None

    @contextmanager
    def event(self, name: str, attributes: Attributes) -> Iterator[Link | None]:
        """The span of an event being handled; yields the link to keep with what it enqueues."""
        if self._tracer is None:
            yield None
            return
        with self._tracer.start_as_current_span(
            name, kind=SpanKind.CONSUMER, attributes=attributes
        ) as span:
            yield Link(span.get_span_context())

    @contextmanager
    def reconcile(
        self, name: str, links: Sequence[Any], attributes: Attributes
    ) -> Iterator[Span | None]:
        """The span of one reconcile: a new trace, linked to its causes."""
        if self._tracer is None:
            yield None
            return
        with self._tracer.start_as_current_span(
            name, kind=SpanKind.INTERNAL, links=list(links), attributes=attributes
        ) as span:
            yield span

    @contextmanager
    def request(self, name: str, attributes: Attributes) -> Iterator[Span | None]:
        """The span of one request to an API server, a child of whatever runs now."""
        if self._tracer is None:
            yield None
            return
        with self._tracer.start_as_current_span(
            name, kind=SpanKind.CLIENT, attributes=attributes
        ) as span:
            yield span

    def carrier(self) -> str:
        """The current span as W3C ``traceparent``, for work that goes on elsewhere; empty without
        one."""
        given: dict[str, str] = {}
        if self._tracer is not None:
            _PROPAGATOR.inject(given)
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
        """The span of work that was done elsewhere, told when it has ended: a child of ``carrier``,
        linked to the current span."""
        if self._tracer is None:
            return
        here = trace.get_current_span().get_span_context()
        span = self._tracer.start_span(
            name,
            context=_PROPAGATOR.extract({_TRACEPARENT: carrier}, context=Context()),
            links=[Link(here)] if here.is_valid else [],
            attributes=attributes,
            start_time=_nanoseconds(since),
        )
        if error:
            span.set_status(Status(StatusCode.ERROR, error))
        span.end(_nanoseconds(until))

    @staticmethod
    def failed(span: Span | None, error: BaseException) -> None:
        """Marks ``span`` as failed with ``error``."""
        if span is not None:
            span.record_exception(error)
            span.set_status(Status(StatusCode.ERROR, str(error)))


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1e9)
