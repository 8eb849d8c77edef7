"""A change of the status counts as this process's own only where it is the effect of its own write and nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.events import DeleteEvent, UpdateEvent
from ctrlruntime.cache.own_changes import OwnChanges
from ctrlruntime.controller.predicates import more_than_own_status_changed

pytestmark = pytest.mark.criterion("SIM-F1")

KEY = ("ns", "a")
EntryOf = Callable[..., Entry]
At = Callable[[int], Entry]


@pytest.fixture
def at(entry_of: EntryOf) -> At:
    return lambda version: entry_of("a", uid="1", generation=1, resourceVersion=str(version))


@pytest.fixture
def changes() -> OwnChanges:
    changes = OwnChanges()
    changes.begin(KEY)
    return changes


def answered(changes: OwnChanges, old: Entry, new: Entry) -> UpdateEvent:
    """The change that the answer of the write made, which came before the watch."""
    event = UpdateEvent(old, new)
    changes.wrote(new, [event])
    assert changes.end(KEY) == []
    return event


def test_an_answer_is_an_own_change_and_its_event_is_none(changes: OwnChanges, at: At) -> None:
    new = at(7)
    assert not more_than_own_status_changed(answered(changes, at(5), new))
    assert changes.observed(new, None) is None


def test_what_others_write_is_not(at: At) -> None:
    event = UpdateEvent(at(5), at(6))
    assert OwnChanges().observed(event.new, event) is event
    assert more_than_own_status_changed(event)
    assert not more_than_own_status_changed(UpdateEvent(event.new, event.new)), "a replay"


def test_an_event_before_its_answer_is_own(changes: OwnChanges, at: At) -> None:
    event = UpdateEvent(at(5), at(7))
    assert changes.observed(event.new, event) is event
    assert not more_than_own_status_changed(event)
    changes.wrote(event.new, [])
    assert changes.end(KEY) == []


def test_an_event_of_others_during_a_write_is_reported_again(changes: OwnChanges, at: At) -> None:
    theirs = UpdateEvent(at(5), at(6))
    changes.observed(theirs.new, theirs)
    changes.begin(KEY)  # another write of the same object
    changes.wrote(at(7), [UpdateEvent(theirs.new, at(7))])
    assert changes.end(KEY) == []
    (again,) = changes.end(KEY)
    assert more_than_own_status_changed(again)


def test_a_state_that_an_answer_went_past_is_reported(changes: OwnChanges, at: At) -> None:
    ours = answered(changes, at(5), at(7))
    again = changes.observed(at(6), None)
    assert again == UpdateEvent(ours.old, ours.new)
    assert more_than_own_status_changed(again)


def test_two_answers_go_past_no_state_of_others(changes: OwnChanges, at: At) -> None:
    first, second = at(6), at(7)
    answered(changes, at(5), first)
    changes.begin(KEY)
    answered(changes, first, second)
    assert changes.observed(at(6), None) is None
    assert changes.observed(at(7), None) is None
    assert changes.relisted() == []


def test_the_answer_of_another_own_write_may_come_later_than_its_event(
    changes: OwnChanges, at: At
) -> None:
    changes.begin(KEY)
    answered_first = UpdateEvent(at(5), at(7))
    changes.wrote(answered_first.new, [answered_first])
    assert changes.end(KEY) == []
    assert changes.observed(at(6), None) is None
    changes.wrote(at(6), [])
    assert changes.end(KEY) == []


def test_a_list_hides_what_an_answer_went_past(changes: OwnChanges, at: At) -> None:
    answered(changes, at(5), at(7))
    assert [more_than_own_status_changed(event) for event in changes.relisted()] == [True]
    assert changes.relisted() == []


def test_a_late_event_of_an_object_that_is_gone_reports_nothing(
    changes: OwnChanges, at: At
) -> None:
    """Handlers that count would count it for ever."""
    answered(changes, at(5), at(7))
    changes.gone(KEY)
    assert changes.observed(at(6), None) is None


def test_a_write_out_of_the_selection_forgets_those_before(changes: OwnChanges, at: At) -> None:
    changes.begin(KEY)
    answered_before = UpdateEvent(at(5), at(7))
    changes.wrote(at(7), [answered_before])
    changes.wrote(at(8), [DeleteEvent(at(7))])
    changes.end(KEY)
    changes.end(KEY)
    assert changes.observed(at(6), None) is None
