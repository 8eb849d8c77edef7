"""Where the tenancy controllers' wake-ups come from, besides the kinds they watch."""

from collections.abc import Callable, Iterable

from apis.tenancy import Tenant
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.events import Created, Event, Updated
from ctrlruntime.controller.intake import EventQueue, Intake
from ctrlruntime.queue import Request
from ctrlruntime.resources import OWNER
from internal.tenancy.children import entries_of
from internal.tenancy.claims import Claims

_TENANT = f"{Tenant.gvk().group_kind}/"


class Wakeups:
    """A source that other parts of the program ring."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._intake: Intake | None = None

    def __str__(self) -> str:
        return self._name

    def wake(self, request: Request, reason: str, *, after: float | None = None) -> None:
        """Queue a request, after a delay or at once; nothing happens before the controller runs."""
        if self._intake is not None:
            self._intake.queue.add(request, after=after, reason=reason)

    async def start(self, intake: Intake) -> None:
        self._intake = intake

    async def wait_synced(self) -> None:
        return

    async def stop(self) -> None:
        self._intake = None


class ChildEvents(Wakeups):
    """Events of the kinds that templates name, led to the tenants concerned."""

    def __init__(self, claims: Claims) -> None:
        super().__init__("children of tenants")
        self._claims = claims
        self._listeners: list[Callable[[RESTMapping, Event], None]] = []

    def tell(self, listener: Callable[[RESTMapping, Event], None]) -> None:
        """Have `listener` called with every event, for owners that are no tenants."""
        self._listeners.append(listener)

    def deliver(self, mapping: RESTMapping, event: Event) -> None:
        """Take in one event of a child kind."""
        for listener in self._listeners:
            listener(mapping, event)
        if self._intake is None:
            return

        def handle(event: Event, queue: EventQueue) -> None:
            for request in self._concerned(mapping, entries_of(event)):
                queue.add(request)

        self._intake.deliver(event, handle, (), kind=mapping.gvk.kind)

    def _concerned(self, mapping: RESTMapping, entries: Iterable[Entry]) -> frozenset[Request]:
        found: set[Request] = set()
        for entry in entries:
            request = owning_tenant(entry)
            if request is not None:
                found.add(request)
            found |= self._claims.of(mapping.gvk.group_kind, entry.namespace, entry.name)
        return frozenset(found)


def owning_tenant(entry: Entry) -> Request | None:
    """The tenant recorded as an object's owner."""
    key = entry.annotations.get(OWNER, "")
    if not key.startswith(_TENANT):
        return None
    namespace, _, name = key.removeprefix(_TENANT).partition("/")
    return Request(namespace, name)


def more_than_status_changed(event: Event) -> bool:
    """Predicate: blocks updates that touch nothing but the status."""
    if not isinstance(event, Updated):
        return True
    return _told(event.old) != _told(event.new)


def _told(entry: Entry) -> tuple[object, ...]:
    return (
        entry.uid,
        entry.generation,
        entry.annotations,
        entry.labels,
        entry.finalizers,
        entry.deletion_timestamp,
        entry.owners,
        entry.owned,
    )


def is_first_sight(event: Event) -> bool:
    """Whether an object was made just now by us or anybody, or listed for the first time."""
    return isinstance(event, Created)
