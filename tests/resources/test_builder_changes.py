"""Instances are numbered on the objects, and what only a new builder would change is held back."""

from dataclasses import replace

import pytest

from ctrlruntime.resources import (
    INPUTS,
    ORDINAL,
    REVISION,
    Desired,
    Owner,
    Reason,
    inputs_of,
)
from tests.resources.ordinal_factories import OWNER, differences, existing, pod


def test_instance_and_inputs_are_recorded_and_no_part_of_the_revision() -> None:
    plain = replace(pod(3), instance=None)
    numbered = replace(plain, instance=3, inputs="abc")
    assert numbered.revision == plain.revision
    recorded = numbered.body(OWNER)["metadata"]["annotations"]
    assert (recorded[ORDINAL], recorded[INPUTS]) == ("3", "abc")
    assert not {ORDINAL, INPUTS} & plain.body(OWNER)["metadata"]["annotations"].keys()


def test_objects_without_instance_and_inputs_are_not_written_for_their_sake() -> None:
    before = replace(pod(1), instance=None)
    assert not differences([before], [existing(before)])
    assert not differences([before], [existing(pod(1, inputs="abc"))])


@pytest.mark.parametrize(
    "wanted", [pod(2, inputs="old"), pod(1, inputs="new")], ids=["instance", "inputs"]
)
def test_a_record_that_is_not_as_it_should_be_is_renewed_in_place(wanted: Desired) -> None:
    there = existing(replace(wanted, instance=1, inputs="old"))
    found = differences([wanted], [there])
    assert [update.reason for update in found.updates] == [Reason.TRACKING]


def test_deletes_go_down_from_the_highest_number() -> None:
    there = [existing(pod(number)) for number in (9, 10, 2, 11)]
    found = differences([], there)
    assert [entry.name for entry in found.deletes] == ["set-11", "set-10", "set-9", "set-2"]


def test_creates_and_updates_go_up() -> None:
    there = [existing(pod(number)) for number in (10, 9)]
    wanted = [pod(number, "app:2") for number in (10, 11, 9, 2)]
    found = differences(wanted, there)
    assert [item.name for item in found.creates] == ["set-2", "set-11"]
    assert [update.entry.name for update in found.updates] == ["set-9", "set-10"]


@pytest.mark.criterion("builder-change-held")
class TestANewBuilder:
    def test_alone_changes_nothing(self) -> None:
        found = differences([pod(1, "app:2", inputs="same")], [existing(pod(1, inputs="same"))])
        assert not found
        assert [update.reason for update in found.held] == [Reason.BUILDER]

    def test_is_followed_where_that_is_wanted(self) -> None:
        wanted = pod(1, "app:2", inputs="same", roll_on_builder_change=True)
        found = differences([wanted], [existing(pod(1, inputs="same"))])
        assert not found.held
        assert [update.reason for update in found.updates] == [Reason.REVISION]

    def test_comes_with_the_next_change_of_the_inputs(self) -> None:
        found = differences([pod(1, "app:2", inputs="new")], [existing(pod(1, inputs="old"))])
        assert not found.held
        assert [update.reason for update in found.updates] == [Reason.REVISION]

    def test_is_not_reported_where_no_inputs_were_recorded(self) -> None:
        found = differences([pod(1, "app:2", inputs="new")], [existing(pod(1))])
        assert [update.reason for update in found.updates] == [Reason.REVISION]

    def test_is_not_held_where_the_revision_is_gone(self) -> None:
        there = existing(pod(1, inputs="same"))
        del there.annotations[REVISION]
        found = differences([pod(1, "app:2", inputs="same")], [there])
        assert [update.reason for update in found.updates] == [Reason.REVISION]

    def test_keeps_what_was_restored_from_a_backup(self) -> None:
        former = Owner(gvk=OWNER.gvk, namespace="default", name="set", uid="former")
        there = existing(pod(1, inputs="same"), owner=former, ownerReferences=[])
        found = differences([pod(1, "app:2", inputs="same")], [there])
        assert [update.reason for update in found.updates] == [Reason.ADOPTION]


def test_inputs_are_distinguished_whatever_the_order_of_keys() -> None:
    assert inputs_of({"a": 1, "b": 2}, "v") == inputs_of({"b": 2, "a": 1}, "v")
    assert len({inputs_of(1), inputs_of("1"), inputs_of(1, None), inputs_of([1])}) == 4
