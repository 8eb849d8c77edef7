"""Filters of events: ``Callable[[Event], bool]``, true to let an event through.

Those that compare old and new only ever block updates. An update that is really a deletion and a
new creation (the uid changed) always passes.
"""

from __future__ import annotations

from collections.abc import Callable

from ctrlruntime.cache.entry import Entry, KindT
from ctrlruntime.cache.events import CreateEvent, DeleteEvent, Event, UpdateEvent
from ctrlruntime.client.selectors import LabelSelector, label_matcher

Predicate = Callable[[Event[KindT]], bool]


def resource_version_changed(event: Event) -> bool:
    """Block updates that change nothing, as replays of the cache are."""
    return (
        not isinstance(event, UpdateEvent)
        or event.old.resource_version != event.new.resource_version
    )


def generation_changed(event: Event) -> bool:
    """Block updates of status and metadata only.

    Setting a deletion timestamp counts as a change of generation for custom resources.
    """
    return _changed(event, lambda entry: entry.generation)


def annotation_changed(event: Event) -> bool:
    """Block updates that leave the annotations alone."""
    return _changed(event, lambda entry: entry.annotations)


def label_changed(event: Event) -> bool:
    """Block updates that leave the labels alone."""
    return _changed(event, lambda entry: entry.labels)


def deletion_or_finalizers_changed(event: Event) -> bool:
    """Block updates that neither begin a deletion nor touch finalizers.

    Combine with :func:`generation_changed` by :func:`any_of` where finalizers of others matter.
    """
    return _changed(event, lambda entry: (entry.deletion_timestamp, entry.finalizers))


def more_than_status_changed(event: Event) -> bool:
    """Block updates that change nothing but the status, whoever wrote it.

    For a kind whose status a controller writes itself use :func:`more_than_own_status_changed`.
    """
    return _changed(event, _all_but_status)


def more_than_own_status_changed(event: Event) -> bool:
    """Block updates by which this process changed nothing but the status.

    A status that another process wrote, such as the leader before, has to be looked at: it may be out of date,
    and was not there yet when this process computed its own.
    """
    if isinstance(event, UpdateEvent) and not event.own and event.old is not event.new:
        return True
    return _changed(event, _all_but_status)


def labels_match(selector: LabelSelector) -> Predicate:
    """Let only objects through that a label selector (text or labels) selects."""
    matches = label_matcher(selector)
    return of_entry(lambda entry: matches(entry.labels))


def of_entry(accepts: Callable[[Entry[KindT]], bool]) -> Predicate[KindT]:
    """Return a filter on the object itself: the new one of an update. Events without an object are blocked."""

    def predicate(event: Event[KindT]) -> bool:
        entry = entry_of(event)
        return entry is not None and accepts(entry)

    return predicate


def all_of(*predicates: Predicate[KindT]) -> Predicate[KindT]:
    """Return True when all are; evaluation stops at the first that is false."""
    return lambda event: all(predicate(event) for predicate in predicates)


def any_of(*predicates: Predicate[KindT]) -> Predicate[KindT]:
    """Return True when one is; evaluation stops at the first that is true."""
    return lambda event: any(predicate(event) for predicate in predicates)


def not_(predicate: Predicate[KindT]) -> Predicate[KindT]:
    """Return a predicate that is true where another is false."""
    return lambda event: not predicate(event)


def entry_of(event: Event[KindT]) -> Entry[KindT] | None:
    """Return the object an event is about: of an update the new one, of a deletion its last state."""
    if isinstance(event, UpdateEvent):
        return event.new
    if isinstance(event, CreateEvent):
        return event.new
    if isinstance(event, DeleteEvent):
        return event.old
    return event.entry


def entries_of(event: Event[KindT]) -> tuple[Entry[KindT], ...]:
    """Return the object of an event, of an update the old one and the new one."""
    if isinstance(event, UpdateEvent):
        return (event.old, event.new)
    entry = entry_of(event)
    return () if entry is None else (entry,)


def _all_but_status(entry: Entry) -> tuple[object, ...]:
    return (
        entry.generation,
        entry.annotations,
        entry.labels,
        entry.finalizers,
        entry.deletion_timestamp,
        entry.owners,
        entry.owned,
    )


def _changed(event: Event, aspect: Callable[[Entry], object]) -> bool:
    if not isinstance(event, UpdateEvent):
        return True
    return event.old.uid != event.new.uid or aspect(event.old) != aspect(event.new)
