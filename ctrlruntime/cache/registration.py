"""A handler's place at an informer."""

import asyncio
from collections.abc import Callable

from ctrlruntime.cache.entry import Key
from ctrlruntime.cache.events import (
    CreateEvent,
    DeleteEvent,
    Event,
    EventHandler,
    GenericEvent,
    UpdateEvent,
)
from ctrlruntime.cache.store import Store
from ctrlruntime.cache.usercode import EXITS

_BREATH = 200  # events handed out before other tasks get a turn

OnFailure = Callable[[Event, BaseException], None]


class Registration:
    """A handler hears of each object once as created, then of each change, in order.

    Handlers are synchronous and quick, so none can hold up another; one that raises loses that event
    alone. Made by ``Informer.add_handler``.
    """

    def __init__(
        self,
        handler: EventHandler,
        store: Store,
        *,
        on_failure: OnFailure,
        on_remove: Callable[["Registration"], None],
        describe: str,
    ) -> None:
        self._handler = handler
        self._store = store
        self._on_failure = on_failure
        self._on_remove = on_remove
        self._describe = describe
        self._pending: dict[Key, None] = dict.fromkeys(store.keys())
        self._listed = False
        self._done = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def synced(self) -> bool:
        """Whether every object that existed at the start was reported to the handler."""
        return self._done.is_set()

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Raise TimeoutError naming the kind."""
        await wait_for(self._done, timeout, f"{self._describe}: handler not synced")

    def remove(self) -> None:
        """Remove the handler; may be called twice."""
        self._on_remove(self)
        self._pending.clear()
        if self._task is not None:
            self._task.cancel()

    def begin(self, *, listed: bool) -> None:
        """Deliver what is there already, in slices. ``listed``: the informer has read its first list."""
        self._listed = listed
        if self._pending:
            self._task = asyncio.get_running_loop().create_task(self._report_existing())
        else:
            self._check()

    def informer_listed(self) -> None:
        self._listed = True
        self._check()

    def deliver(self, event: Event) -> None:
        """Report a change of the store. Of an object not reported yet, only the latest state counts."""
        if self._pending:
            key = key_of(event)
            if key is not None and key in self._pending:
                if isinstance(event, DeleteEvent):
                    del self._pending[key]
                return
        self._call(event)

    def _check(self) -> None:
        if self._listed and not self._pending:
            self._done.set()

    async def _report_existing(self) -> None:
        count = 0
        while self._pending:
            key = next(iter(self._pending))
            del self._pending[key]
            entry = self._store.get_by_key(key)
            if entry is not None:
                self._call(CreateEvent(entry, initial=True))
            count += 1
            if count % _BREATH == 0:
                await asyncio.sleep(0)
        self._check()

    def _call(self, event: Event) -> None:
        try:
            self._handler(event)
        except EXITS:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever a handler does, the informer goes on
            self._on_failure(event, error)


def key_of(event: Event) -> Key | None:
    """Return the key of the object that an event is about."""
    match event:
        case CreateEvent(new=entry) | UpdateEvent(new=entry) | DeleteEvent(old=entry):
            return entry.key
        case GenericEvent(key=key):
            return key


async def wait_for(event: asyncio.Event, timeout: float | None, message: str) -> None:
    """Wait for an event. Raises TimeoutError with the message."""
    try:
        async with asyncio.timeout(timeout):
            await event.wait()
    except TimeoutError as error:
        raise TimeoutError(f"{message} within {timeout} s") from error
