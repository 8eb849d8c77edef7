"""An answer or a body that is nested too deep is a typed error of that object."""

from collections.abc import Callable

import orjson
import pytest

from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.client.calling import decode
from ctrlruntime.client.writes import _encoded
from ctrlruntime.intake import LimitExceeded

MAPPING = RESTMapping(GroupVersionKind("example.com", "v1", "Widget"), "widgets", namespaced=True)
SAID = "Widget a/bad is nested more than 200 levels deep: remove levels of mappings and lists"


def deep(levels: int) -> bytes:
    return b'{"a":' * levels + b"1" + b"}" * levels


def body(levels: int) -> bytes:
    metadata = b'{"name":"bad","namespace":"a","managedFields":[{"fieldsV1":%b}]}' % deep(levels)
    return b'{"metadata":%b,"spec":%b}' % (metadata, deep(levels))


def read(levels: int) -> object:
    return decode(body(levels), MAPPING, MAPPING, metadata_only=False)


def write(levels: int) -> object:
    value: object = 1
    for _ in range(levels):
        value = {"a": value}
    return _encoded({"kind": "Widget", "metadata": {"name": "bad", "namespace": "a"}, "a": value})


@pytest.mark.criterion("S-F2")
@pytest.mark.parametrize("levels", [1_500, 9_000])
@pytest.mark.parametrize("do", [read, write])
def test_an_object_nested_too_deep_is_a_typed_error_that_names_it(
    do: Callable[[int], object], levels: int
) -> None:
    with pytest.raises(LimitExceeded, match=SAID):
        do(levels)


@pytest.mark.parametrize("do", [read, write])
def test_one_within_the_limit_is_read_and_written(do: Callable[[int], object]) -> None:
    assert do(190)


def test_its_metadata_can_be_read_and_other_errors_stay_what_they_are() -> None:
    found = decode(body(1_500), MAPPING, MAPPING, metadata_only=True)
    assert isinstance(found, dict)
    assert found["metadata"] == {"name": "bad", "namespace": "a"}
    with pytest.raises(orjson.JSONDecodeError):
        decode(b"{", MAPPING, MAPPING, metadata_only=False)
    with pytest.raises(TypeError):
        _encoded({"a": object()})
