"""Events of what a pass writes itself: they start no further pass if the pass went on with what they report."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from apis.tenancy import Tenant
from ctrlruntime.api.kinds import GroupKind
from ctrlruntime.cache import DeleteEvent, Entry, Event
from ctrlruntime.controller.predicates import entries_of
from ctrlruntime.queue import Request
from ctrlruntime.resources import Desired, ObjectKey

_State = tuple[str, str]
"""UID and resourceVersion."""


@dataclass(slots=True)
class PassEvents:
    """Events of the objects that one pass writes, each kept from the queue for as long as the write takes."""

    settled: bool = False
    """Whether nothing that the pass found can be changed by its own writes."""
    _writing: set[ObjectKey] = field(default_factory=set)
    _held: list[tuple[ObjectKey, _State | None]] = field(default_factory=list)
    _taken: dict[ObjectKey, _State] = field(default_factory=dict)

    def begin(self, desired: Desired) -> None:
        """Keep the events of an object from the queue from now on."""
        self._writing.add(desired.key)

    def end(self, desired: Desired) -> None:
        """Keep the events of an object from the queue no more."""
        self._writing.discard(desired.key)

    def took(self, desired: Desired, entry: Entry | None) -> None:
        """Record with which state of an object the pass goes on."""
        if entry is not None:
            self._taken[desired.key] = (entry.uid, entry.resource_version)

    def holds(self, kind: GroupKind, event: Event) -> bool:
        """Return whether an event is kept from the queue, and record what it reports."""
        for entry in entries_of(event)[-1:]:
            key = ObjectKey(kind, entry.name, namespace=entry.namespace)
            if key in self._writing:
                gone = isinstance(event, DeleteEvent)
                self._held.append((key, None if gone else (entry.uid, entry.resource_version)))
                return True
        return False

    def reports_more(self) -> bool:
        """Return whether an event that was kept from the queue reports what the pass has not read."""
        seen = self.settled and all(self._taken.get(key) == state for key, state in self._held)
        return bool(self._held) and not seen


@dataclass(slots=True)
class OwnEvents:
    """Events of what the passes under way write. `wake` receives a tenant that has to look again, and why."""

    wake: Callable[[Request, str], None] = lambda _tenant, _reason: None
    _passes: dict[Request, PassEvents] = field(default_factory=dict)

    @contextmanager
    def of(self, tenant: Tenant) -> Iterator[PassEvents]:
        """Keep the events of what a pass over a tenant writes from the queue; wake the tenant at its end if one reports more."""
        request = Request(tenant.metadata.name or "", namespace=tenant.metadata.namespace or "")
        events = self._passes[request] = PassEvents()
        try:
            yield events
        finally:
            del self._passes[request]
            if events.reports_more():
                self.wake(request, "an object changed while it was written")

    def holds(self, tenant: Request, kind: GroupKind, event: Event) -> bool:
        """Return whether an event of an object of a tenant is kept from the queue, and record what it reports."""
        events = self._passes.get(tenant)
        return events is not None and events.holds(kind, event)
