"""The handlers of one informer's events: who is registered, and what each is given."""

import asyncio
import inspect
from collections.abc import Callable

from structlog.typing import FilteringBoundLogger

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.events import Event, EventHandler, UpdateEvent
from ctrlruntime.cache.observe import InformerObserver
from ctrlruntime.cache.registration import Registration, key_of
from ctrlruntime.cache.store import Store

BREATH = 200
"""Events handed out before other tasks get a turn."""
_MIN_RESYNC = 1.0


class EventHandlers:
    """Delivers every change of a store to each handler. One that raises loses that event alone."""

    def __init__(
        self,
        gvk: GroupVersionKind,
        store: Store,
        *,
        observer: InformerObserver,
        logger: FilteringBoundLogger,
    ) -> None:
        self._gvk = gvk
        self._store = store
        self._observer = observer
        self._log = logger
        self._registrations: dict[Registration, None] = {}
        self._served: list[Callable[[bool], None]] = []

    def add(self, handler: EventHandler, *, listed: bool) -> Registration:
        """Report what is in the store, then every change. ``listed``: the first list was read.

        Raises TypeError for an async function: it would not be awaited.
        """
        if inspect.iscoroutinefunction(handler):  # a message of its own: work goes to a queue
            raise TypeError(f"{self._gvk}: a handler is a plain function; put work into a queue")
        registration = Registration(
            handler,
            self._store,
            on_failure=self._handler_failed,
            on_remove=lambda gone: self._registrations.pop(gone, None),
            describe=str(self._gvk),
        )
        self._registrations[registration] = None
        registration.begin(listed=listed)
        return registration

    def add_served(self, handler: Callable[[bool], None]) -> None:
        """Call `handler` whenever the server ceases, or begins again, to serve the kind."""
        self._served.append(handler)

    @property
    def synced(self) -> bool:
        """Whether every handler was given all that was there when it was added."""
        return all(registration.synced for registration in self._registrations)

    def emit(self, event: Event) -> None:
        """Deliver one change."""
        for registration in tuple(self._registrations):
            registration.deliver(event)

    def emit_all(self, events: list[Event]) -> None:
        """Deliver changes in their order."""
        for event in events:
            self.emit(event)

    def emit_served(self, served: bool) -> None:
        """Report whether the server serves the kind."""
        for handler in self._served:
            try:
                handler(served)
            except Exception as error:  # noqa: BLE001 - a handler must not end the watch
                self._log.error("a handler of a kind's presence failed", exc_info=error)

    def informer_listed(self) -> None:
        """Record at every registration that the first list was read."""
        for registration in tuple(self._registrations):
            registration.informer_listed()

    async def resync(self, period: float | None, random: Callable[[], float]) -> None:
        """Report every object again each ``period`` seconds, +-10 %, for ever. None: never."""
        if period is None:
            await asyncio.Event().wait()
            return
        while True:
            await asyncio.sleep(max(period, _MIN_RESYNC) * (0.9 + 0.2 * random()))
            for count, key in enumerate(self._store.keys(), 1):
                entry = self._store.get_by_key(key)
                if entry is not None:
                    self.emit(UpdateEvent(entry, entry))
                if count % BREATH == 0:
                    await asyncio.sleep(0)

    def _handler_failed(self, event: Event, error: BaseException) -> None:
        self._observer.handler_failed(self._gvk)
        self._log.error(
            "an event handler failed; the event is lost to it",
            change=type(event).__name__,
            key=key_of(event),
            exc_info=error,
        )
