"""Field sets: the laws of sets, and the form on the wire."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ctrlruntime.envtest.merge import fields
from ctrlruntime.envtest.merge.fields import FieldSet, Path

_ELEMENTS = st.sampled_from(
    ["f:a", "f:b", 'f:c"d', 'k:{"name":"x"}', 'k:{"name":"y","port":80}', 'v:"s"', "v:1", "i:0"]
)
_PATHS = st.lists(_ELEMENTS, min_size=1, max_size=4).map(tuple)
_SETS = st.sets(_PATHS, max_size=12)


def _of(members: set[Path]) -> FieldSet:
    return fields.of(*members)


def _members(found: FieldSet) -> set[Path]:
    return set(fields.paths(found))


@given(_SETS, _SETS)
def test_union_difference_and_intersection_are_those_of_sets(a: set[Path], b: set[Path]) -> None:
    left, right = _of(a), _of(b)
    assert _members(left) == a
    assert _members(fields.union(left, right)) == a | b
    assert _members(fields.difference(left, right)) == a - b
    assert _members(fields.intersection(left, right)) == a & b
    assert (_members(left), _members(right)) == (a, b)


@given(_SETS, _SETS)
def test_recursive_difference_removes_all_that_lies_below(a: set[Path], b: set[Path]) -> None:
    rest = {p for p in a if not any(p[: len(each)] == each for each in b)}
    assert _members(fields.recursive_difference(_of(a), _of(b))) == rest


@given(_SETS)
def test_leaves_are_the_members_without_members_below(a: set[Path]) -> None:
    expected = {p for p in a if not any(q != p and q[: len(p)] == p for q in a)}
    assert _members(fields.leaves(_of(a))) == expected


@given(_SETS)
def test_fields_v1_round_trip(a: set[Path]) -> None:
    text = orjson.dumps(fields.to_json(_of(a)))
    assert _members(fields.from_json(orjson.loads(text))) == a
    assert set(fields.paths_by_level(_of(a))) == a
    assert all(fields.has(_of(a), path) for path in a)


def test_elements_are_ordered_as_the_server_orders_them() -> None:
    mixed: FieldSet = {
        "i:1": {},
        "v:10": {},
        "v:9": {},
        'k:{"port":10}': {},
        'k:{"port":9}': {},
        "f:b": {},
        "f:a": {".": {}, "f:z": {}},
    }
    assert list(fields.to_json(fields.from_json(mixed))) == [
        "f:a",
        "f:b",
        'k:{"port":9}',
        'k:{"port":10}',
        "v:9",
        "v:10",
        "i:1",
    ]


def test_elements_are_read_however_they_are_spelled() -> None:
    spelled: Any = {'k:{ "b" : 1, "a":"x" }': {}}
    assert list(fields.from_json(spelled)) == ['k:{"a":"x","b":1}']
    malformed: list[FieldSet] = [{"x:a": {}}, {"k:[1]": {}}, {"v:{": {}}, {"i:x": {}}, {"f": {}}]
    for bad in malformed:
        with pytest.raises(fields.FieldsError):
            fields.from_json(bad)


def test_a_path_reads_as_in_a_conflict() -> None:
    path = ("f:spec", "f:ports", 'k:{"port":80,"protocol":"TCP"}', "f:name", 'v:"a"', "i:3")
    assert fields.path_string(path) == '.spec.ports[port=80,protocol="TCP"].name[="a"][3]'
