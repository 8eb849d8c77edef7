"""Events of the kinds that templates name, as requests for the tenants concerned."""

from collections.abc import Callable

from apis.tenancy import Tenant
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache import Entry, Event
from ctrlruntime.controller.event_dispatch import EventQueue
from ctrlruntime.controller.predicates import entries_of
from ctrlruntime.controller.request_source import RequestSource
from ctrlruntime.queue import Request
from ctrlruntime.resources import OWNER
from internal.tenancy.tenant.conflict_waiters import Claims
from internal.tenancy.tenant.own_events import OwnEvents

_TENANT = f"{Tenant.gvk().group_kind}/"


class ChildEvents(RequestSource):
    """Add a request for each tenant that an event of a child kind concerns."""

    def __init__(self, claims: Claims) -> None:
        super().__init__("children of tenants")
        self.own = OwnEvents(self.enqueue)
        self._claims = claims
        self._listeners: list[Callable[[RESTMapping, Event], None]] = []

    def add_listener(self, listener: Callable[[RESTMapping, Event], None]) -> None:
        """Call `listener` with every event, for owners of other kinds."""
        self._listeners.append(listener)

    def deliver(self, mapping: RESTMapping, event: Event) -> None:
        """Take in one event of a child kind."""
        for listener in self._listeners:
            listener(mapping, event)
        if self._intake is None:
            return

        def handle(event: Event, queue: EventQueue) -> None:
            for request in self._concerned(mapping, event):
                queue.add(request)

        self._intake.deliver(event, handle, (), kind=mapping.gvk.kind)

    def _concerned(self, mapping: RESTMapping, event: Event) -> set[Request]:
        kind, found, owners = mapping.gvk.group_kind, set[Request](), set[str]()
        for entry in entries_of(event):
            found |= self._claims.of(kind, entry.namespace, entry.name)
            owners.add(entry.annotations.get(OWNER, ""))
        for key in owners:
            owner = tenant_of(key)
            if owner is not None and not self.own.holds(owner, kind, event):
                found.add(owner)
        return found


def owning_tenant(entry: Entry) -> Request | None:
    """Return the tenant recorded as an object's owner."""
    return tenant_of(entry.annotations.get(OWNER, ""))


def tenant_of(key: str) -> Request | None:
    """Return the tenant that an owner's key names."""
    if not key.startswith(_TENANT):
        return None
    namespace, _, name = key.removeprefix(_TENANT).partition("@")[0].partition("/")
    return Request(name, namespace=namespace)
