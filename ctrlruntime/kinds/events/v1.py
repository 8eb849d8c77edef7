"""Typed kinds of events/v1. Made by `make kinds`; changes here are lost."""

from __future__ import annotations

from ctrlruntime.api.resource import NoStatus
from ctrlruntime.api.scalars import MicroTime, Time
from ctrlruntime.kinds.base import BuiltinModel, SpeclessKind
from ctrlruntime.kinds.core.v1 import EventSource, ObjectReference

__all__ = ["Event", "EventSeries"]


class EventSeries(BuiltinModel):
    """EventSeries of events/v1."""

    count: int
    last_observed_time: MicroTime


class Event(SpeclessKind[NoStatus], group="events.k8s.io", version="v1"):
    """Event of events/v1."""

    action: str | None = None
    deprecated_count: int | None = None
    deprecated_first_timestamp: Time | None = None
    deprecated_last_timestamp: Time | None = None
    deprecated_source: EventSource | None = None
    event_time: MicroTime
    note: str | None = None
    reason: str | None = None
    regarding: ObjectReference | None = None
    related: ObjectReference | None = None
    reporting_controller: str | None = None
    reporting_instance: str | None = None
    series: EventSeries | None = None
    type: str | None = None
