"""Rows of the objects of one kind, computed when a page needs them: idle, the console costs nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from apis.health import Health
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.cache.entry import Entry, Key
from ctrlruntime.cache.events import CreateEvent, DeleteEvent, Event, UpdateEvent
from ctrlruntime.cache.informer import Informer, Registration
from manager.commands.summaries import Summary
from manager.console.changes import Changes
from manager.console.rows import Row, row_of

Group = tuple[str, str, str, str, Health]
"""Namespace, group, version, state and what that means."""


class KindIndex:
    """The rows of one kind, from an informer that others declared.

    Nothing is registered before the first :meth:`refresh`. After it, changed objects are marked, and their
    rows rebuilt by the next one. Counts are kept as rows change, so that a page of counts costs what
    has changed, not what there is.
    """

    def __init__(
        self,
        informer: Informer,
        changes: Changes,
        maybe_yield: Callable[[], Awaitable[None]],
        became: Callable[[Summary, Summary], None] = lambda _old, _new: None,
    ) -> None:
        """`became`: called with the former and the present summary of an object whose row was made anew."""
        self.counts: Counter[Group] = Counter()
        self.not_good: dict[Key, Row] = {}
        self.held: dict[Key, Row] = {}
        self.active: dict[Key, Row] = {}
        """Those with a run under way, or a task that waits."""
        self._informer = informer
        self._changes = changes
        self._yield = maybe_yield
        self._became = became
        self._rows: dict[Key, Row] = {}
        self._marked: dict[Key, None] = {}
        self._registration: Registration | None = None

    @property
    def kind(self) -> str:
        """The kind."""
        return self._informer.gvk.kind

    @property
    def mapping(self) -> RESTMapping:
        """How the kind is served."""
        return self._informer.mapping

    @property
    def is_readable(self) -> bool:
        """Whether the API server has the kind, and its objects have been listed."""
        return self._informer.readable and self._informer.missing_since is None

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, namespace: str, name: str) -> Entry | None:
        """Return one object of the cache."""
        return self._informer.store.get(name, namespace=namespace)

    def row(self, namespace: str, name: str) -> Row | None:
        """Return the row of one object."""
        return self._rows.get((namespace, name))

    def owned(self, uid: str) -> list[Row]:
        """Return the rows of the objects that name an owner by its UID."""
        found = (self._rows.get(each.key) for each in self._informer.store.by_index("owner", uid))
        return [row for row in found if row is not None]

    def rows(self, namespace: str = "") -> Iterator[Row]:
        """Yield the rows of a namespace, or all."""
        return (row for key, row in self._rows.items() if namespace in {"", key[0]})

    def entries(self, namespace: str = "") -> list[Entry]:
        """Return the objects of a namespace, or all. For kinds with few."""
        return self._informer.store.list(namespace or None)

    async def refresh(self) -> None:
        """Make the rows of what has changed. Yields to the loop between."""
        if not self._informer.readable:
            return
        if self._registration is None:
            self._registration = self._informer.add_handler(self._event)
        await self._registration.wait_synced()
        for key in list(self._marked):
            if key in self._marked:
                del self._marked[key]
                self._put(key, self._informer.store.get_by_key(key))
                await self._yield()

    def close(self) -> None:
        """Follow no longer."""
        if self._registration is not None:
            self._registration.remove()

    def _event(self, event: Event[Any]) -> None:
        match event:
            case CreateEvent(new=entry, initial=initial):
                self._mark(entry, tell=not initial)
            case UpdateEvent(old=old, new=entry):
                if old.resource_version != entry.resource_version:
                    self._mark(entry, tell=True)
            case DeleteEvent(old=entry):
                self._mark(entry, tell=True)

    def _mark(self, entry: Entry, *, tell: bool) -> None:
        self._marked[entry.key] = None
        if tell:
            self._changes.publish(self.kind, entry.namespace, entry.name)

    def _put(self, key: Key, entry: Entry | None) -> None:
        old = self._rows.pop(key, None)
        if old is not None:
            self._count(old, -1)
            for each in (self.not_good, self.held, self.active):
                each.pop(key, None)
        if entry is None:
            return
        row = self._rows[key] = row_of(entry)
        if old is not None:
            self._became(old.summary, row.summary)
        self._count(row, 1)
        if not row.summary.is_good:
            self.not_good[key] = row
        if row.is_held:
            self.held[key] = row
        if row.waiting or (row.run is not None and (row.run.is_running or row.run.retry_at)):
            self.active[key] = row

    def _count(self, row: Row, change: int) -> None:
        found = row.summary
        group = (found.namespace, row.group, found.version, found.state, found.health)
        self.counts[group] += change
        if not self.counts[group]:
            del self.counts[group]
