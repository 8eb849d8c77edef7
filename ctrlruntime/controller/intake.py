"""The way of an event into the queue: predicates, handler, priority, reason, trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from structlog.typing import FilteringBoundLogger

from ctrlruntime.cache.events import Created, Deleted, Event, Updated
from ctrlruntime.controller.predicates import Predicate, entry_of
from ctrlruntime.queue import PriorityQueue, Request
from ctrlruntime.tracing import Tracing

LOW_PRIORITY = -100
"""Priority of what need not be done at once: the initial list, and replays without a change."""


class EventQueue:
    """A controller's queue as the handler of one event sees it.

    What is added without a priority of its own gets the event's: low for the initial list and for
    updates without a change, else 0.
    """

    __slots__ = ("_link", "_queue", "_reason", "cluster", "default_priority")

    def __init__(
        self,
        queue: PriorityQueue,
        *,
        cluster: str = "",
        default_priority: int = 0,
        reason: str = "",
        link: Any = None,
    ) -> None:
        self._queue = queue
        self._reason = reason
        self._link = link
        self.cluster = cluster
        self.default_priority = default_priority

    def add(
        self,
        request: Request,
        *,
        priority: int | None = None,
        after: float | None = None,
        rate_limited: bool = False,
        reason: str | None = None,
    ) -> None:
        """Queues ``request``; see :meth:`PriorityQueue.add`."""
        self._queue.add(
            request,
            priority=self.default_priority if priority is None else priority,
            after=after,
            rate_limited=rate_limited,
            reason=self._reason if reason is None else reason,
            link=self._link,
        )


Handler = Callable[[Event, EventQueue], None]
"""Decides which requests an event leads to. Synchronous, and quick: it runs in the informer's turn."""


class Intake:
    """Takes in the events of all sources of one controller."""

    def __init__(
        self,
        queue: PriorityQueue,
        logger: FilteringBoundLogger,
        tracing: Tracing | None = None,
    ) -> None:
        self.queue = queue
        self._logger = logger
        self._tracing = tracing if tracing is not None and tracing.enabled else None

    def deliver(
        self,
        event: Event,
        handler: Handler,
        predicates: Sequence[Predicate],
        *,
        kind: str,
        cluster: str = "",
    ) -> None:
        """Hands ``event`` to ``handler`` if all ``predicates`` let it through.

        A handler or predicate that raises is logged and loses this event only.
        """
        try:
            for predicate in predicates:
                if not predicate(event):
                    return
            reason = describe(event, kind)
            if self._tracing is None:
                handler(event, self._queue_for(event, cluster, reason, None))
                return
            attributes = {"k8s.kind": kind, "k8s.cluster": cluster, "event": reason}
            with self._tracing.event(f"{kind} event", attributes) as link:
                handler(event, self._queue_for(event, cluster, reason, link))
        except Exception:
            self._logger.exception("Event handler failed; the event is lost", kind=kind)

    def _queue_for(self, event: Event, cluster: str, reason: str, link: Any) -> EventQueue:
        return EventQueue(
            self.queue,
            cluster=cluster,
            default_priority=LOW_PRIORITY if is_unremarkable(event) else 0,
            reason=reason,
            link=link,
        )


def is_unremarkable(event: Event) -> bool:
    """Whether nothing new happened: an object of the initial list, or an update without a change."""
    if isinstance(event, Created):
        return event.initial
    return isinstance(event, Updated) and event.old.resource_version == event.new.resource_version


def describe(event: Event, kind: str) -> str:
    """The event as a reason for people: ``ConfigMap default/settings updated``."""
    if isinstance(event, Created):
        verb = "listed" if event.initial else "created"
    elif isinstance(event, Updated):
        verb = "updated"
    elif isinstance(event, Deleted):
        verb = "deleted"
    else:
        verb = "signalled"
    entry = entry_of(event)
    if entry is not None:
        namespace, name = entry.namespace, entry.name
    else:
        namespace, name = getattr(event, "key", None) or ("", "")
    return f"{kind} {namespace}/{name} {verb}" if namespace else f"{kind} {name} {verb}"
