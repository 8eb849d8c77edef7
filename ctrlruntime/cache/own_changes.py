"""Which changes of a store are this process's own writes and nothing else."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from ctrlruntime.cache.entry import Entry, Key
from ctrlruntime.cache.events import DeleteEvent, Event, UpdateEvent
from ctrlruntime.cache.versions import version


@dataclass(slots=True)
class _Answered:
    """Answered writes of one object whose events have not come."""

    change: UpdateEvent
    """From what was known before the first of them to what the last one made."""
    versions: set[int]


class OwnChanges:
    """Marks updates as own, and returns those again, unmarked, that turn out to be another writer's.

    An answer may go past a state of another writer that was never seen here, and the watch may report a change
    before the answer shows whose it is: until then it counts as own.
    """

    def __init__(self) -> None:
        self._open: Counter[Key] = Counter()
        self._answered: dict[Key, _Answered] = {}
        self._presumed: dict[Key, dict[int, UpdateEvent]] = {}

    def begin(self, key: Key) -> None:
        """Take in that a write is sent."""
        self._open[key] += 1

    def wrote(self, entry: Entry, events: list[Event]) -> None:
        """Take in the answer of a write, and mark the change that it made."""
        if presumed := self._presumed.get(entry.key):
            presumed.pop(version(entry), None)
        event = events[-1] if events else None
        if isinstance(event, DeleteEvent):
            self.gone(entry.key)
        if not isinstance(event, UpdateEvent) or event.new is not entry:
            return
        event.own = True
        known = self._answered.get(entry.key)
        old, versions = (event.old, set()) if known is None else (known.change.old, known.versions)
        versions.add(version(entry))
        self._answered[entry.key] = _Answered(UpdateEvent(old, entry), versions)

    def gone(self, key: Key) -> None:
        """Take in that an object has left the store: a late event of it must not report it again."""
        self._answered.pop(key, None)
        self._presumed.pop(key, None)

    def end(self, key: Key) -> list[UpdateEvent]:
        """Take in that a write has ended. Return the changes that were not its own, nor of another one under way."""
        self._open[key] -= 1
        if self._open[key] > 0:
            return []
        del self._open[key]
        return [replace(each, own=False) for each in self._presumed.pop(key, {}).values()]

    def observed(self, entry: Entry, event: Event | None) -> Event | None:
        """Take in an event of the watch, and the change it made, if any. Return what to report."""
        if isinstance(event, UpdateEvent) and self._open and entry.key in self._open:
            event.own = True
            self._presumed.setdefault(entry.key, {})[version(entry)] = event
        known = self._answered.get(entry.key) if self._answered else None
        if known is None:
            return event
        seen = version(entry)
        if seen >= version(known.change.new):
            del self._answered[entry.key]
        elif event is None and seen not in known.versions:
            if entry.key not in self._open:
                return replace(known.change)
            self._presumed.setdefault(entry.key, {})[seen] = known.change
        return event

    def relisted(self) -> list[UpdateEvent]:
        """Take in a list: it hides what own writes went past. Return their changes, to be reported again."""
        found = [each.change for each in self._answered.values()]
        self._answered.clear()
        return list(found)
