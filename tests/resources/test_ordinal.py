"""The numbers of instances."""

import pytest

from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.resources import ORDINAL, ordinal_of, ordinals
from tests.resources.ordinal_factories import POD


def entry(annotations: dict[str, str]) -> Entry:
    metadata = {"name": "a", "annotations": annotations}
    return EntryDecoder(POD.gvk).decode_manifest({"metadata": metadata})


@pytest.mark.parametrize(
    ("recorded", "number"),
    [("0", 0), ("12", 12), ("", 0), ("x", 0), ("-1", 0), ("1.5", 0), (" 3", 0), ("²", 0)],
)
def test_the_number_of_an_instance(recorded: str, number: int) -> None:
    assert ordinal_of(entry({ORDINAL: recorded})) == number


def test_instances_are_numbered_from_the_start_on() -> None:
    assert ordinal_of(entry({})) == 0
    assert list(ordinals(3, 2)) == [3, 4]
    assert list(ordinals(7, 0)) == []
    for start, replicas in ((-1, 1), (0, -1)):
        with pytest.raises(ValueError, match="there are no"):
            ordinals(start, replicas)
