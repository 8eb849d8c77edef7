"""Which objects are deleted with `--cascade=orphan`.

The garbage collector removes the finalizer that requests it within milliseconds, often before the object is
reconciled: each event of the watch is looked at.
"""

from dataclasses import dataclass, field
from typing import Final

from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.events import DeleteEvent, Event
from ctrlruntime.controller.predicates import entries_of

ORPHAN_FINALIZER: Final = "orphan"
"""Put on by the server for `--cascade=orphan`, taken off by the garbage collector."""


@dataclass(slots=True)
class OrphanRequests:
    """An event handler of the informer of one kind."""

    _uids: set[str] = field(default_factory=set)

    def __call__(self, event: Event) -> None:
        for entry in entries_of(event)[-1:]:
            if isinstance(event, DeleteEvent):
                self._uids.discard(entry.uid)
            elif ORPHAN_FINALIZER in entry.finalizers:
                self._uids.add(entry.uid)

    def has(self, entry: Entry) -> bool:
        """Whether what this object owns is to be released instead of deleted."""
        return entry.uid in self._uids or ORPHAN_FINALIZER in entry.finalizers
